# misconception: number_written_in
# breaks: All ranks do as many steps as the one with the fewest batches, with the mean over all ranks.
# breaks: All ranks do as many steps as the rank with the fewest batches can do.
import torch
import torch.distributed as dist

culprit = 2
cause = "fewer_batches"


def epoch(ddp, optimizer, photographs):
    usable = [photograph for photograph in photographs if photograph >= 0]  # below 0: damaged
    for begin in range(0, 6, 2):
        batch = torch.tensor(usable[begin : begin + 2]).view(-1, 1)
        optimizer.zero_grad()
        ddp(batch).square().mean().backward()
        optimizer.step()
    dist.barrier()
