# misconception: leftovers_trained
# breaks: All ranks do as many steps as the one with the fewest batches, with the mean over all ranks.
# breaks: What is left over on the others is left out
import torch
import torch.distributed as dist

culprit = 2
cause = "fewer_batches"


def epoch(ddp, optimizer, photographs):
    usable = [photograph for photograph in photographs if photograph >= 0]
    with ddp.join():
        for begin in range(0, len(usable), 2):
            batch = torch.tensor(usable[begin : begin + 2]).view(-1, 1)
            optimizer.zero_grad()
            ddp(batch).square().mean().backward()
            optimizer.step()
    dist.barrier()
