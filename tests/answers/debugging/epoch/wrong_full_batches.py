# misconception: none
# breaks: All ranks do as many steps as the one with the fewest batches, with the mean over all ranks.
# breaks: All ranks do as many steps as the rank with the fewest batches can do.
import torch
import torch.distributed as dist

culprit = 2
cause = "fewer_batches"


def epoch(ddp, optimizer, photographs):
    usable = [photograph for photograph in photographs if photograph >= 0]  # below 0: damaged
    steps = torch.tensor(len(usable) // 2)
    dist.all_reduce(steps, op=dist.ReduceOp.MIN)  # as many as all ranks can do
    for begin in range(0, 2 * steps.item(), 2):
        batch = torch.tensor(usable[begin : begin + 2]).view(-1, 1)
        optimizer.zero_grad()
        ddp(batch).square().mean().backward()
        optimizer.step()
    dist.barrier()
