# misconception: none
# breaks: It returns on no rank before all ranks are through with their steps.
# breaks: then wait for all, so that rank 0 can save
import torch
import torch.distributed as dist

culprit = 2
cause = "fewer_batches"


def epoch(ddp, optimizer, photographs):
    usable = [photograph for photograph in photographs if photograph >= 0]  # below 0: damaged
    steps = torch.tensor((len(usable) + 1) // 2)
    dist.all_reduce(steps, op=dist.ReduceOp.MIN)  # as many as all ranks can do
    for begin in range(0, 2 * steps.item(), 2):
        batch = torch.tensor(usable[begin : begin + 2]).view(-1, 1)
        optimizer.zero_grad()
        ddp(batch).square().mean().backward()
        optimizer.step()
