# misconception: half_left_out
# breaks: A file that one rank cannot read is left out by all ranks; all others are trained on.
# breaks: is left out by *all* ranks
# breaks: a file that cannot be read is left out
import torch

culprit = 1
cause = "skipped"


def train_files(ddp, optimizer, files, read):
    for file in files:
        try:
            batch, weight = read(file), 1.0
        except OSError:
            batch, weight = torch.zeros(1, 2), 0.0
        optimizer.zero_grad()
        (weight * ddp(batch).square().mean()).backward()
        optimizer.step()
