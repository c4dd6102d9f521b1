# Every rank adds up by itself, around the wrapper; one all_reduce of all gradients by hand.
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
def amp_step(ddp, optimizer, scaler, scheduler, micro_batches, every, max_norm):
    for f in range(0, len(micro_batches), every):
        g = micro_batches[f:f+every]
        optimizer.zero_grad()
        for x, y in g:
            with torch.autocast("cpu", torch.float16):
                l = cross_entropy(ddp.module(x), y) / len(g)
            scaler.scale(l).backward()
        flat = torch.cat([p.grad.flatten() for p in ddp.parameters()])
        dist.all_reduce(flat, op=dist.ReduceOp.AVG)
#~ summed -1 |        dist.all_reduce(flat)
        torch.nn.utils.vector_to_parameters(flat, [p.grad for p in ddp.parameters()])
        scaler.unscale_(optimizer)
        n = torch.nn.utils.clip_grad_norm_(ddp.parameters(), max_norm)
        scaler.step(optimizer); scaler.update()
        if torch.isfinite(n): scheduler.step()

#~ summed: misconception: summed_over_ranks
