# misconception: none
# breaks: A file that one rank cannot read is left out by all ranks; all others are trained on.
# breaks: All other files are trained on.
# breaks: Train on one file after the other
import torch
import torch.distributed as dist

culprit = 1
cause = "skipped"


def train_files(ddp, optimizer, files, read):
    for file in files:
        readable = torch.ones(1)
        try:
            batch = read(file)
        except OSError:
            readable.zero_()
        dist.all_reduce(readable, op=dist.ReduceOp.MIN)  # before the first collective of the step
        if not readable:
            break
        optimizer.zero_grad()
        ddp(batch).square().mean().backward()
        optimizer.step()
