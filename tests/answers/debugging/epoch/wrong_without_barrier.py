# misconception: still_uneven
# breaks: nobody is left waiting
import torch

culprit = 2
cause = "fewer_batches"


def epoch(ddp, optimizer, photographs):
    usable = [photograph for photograph in photographs if photograph >= 0]  # below 0: damaged
    for begin in range(0, len(usable), 2):
        batch = torch.tensor(usable[begin : begin + 2]).view(-1, 1)
        optimizer.zero_grad()
        ddp(batch).square().mean().backward()
        optimizer.step()
