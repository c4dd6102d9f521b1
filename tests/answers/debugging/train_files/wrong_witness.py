# misconception: witness
# breaks: culprit is the rank that does something else than the others.
import torch
import torch.distributed as dist

culprit = 0
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
            continue
        optimizer.zero_grad()
        ddp(batch).square().mean().backward()
        optimizer.step()
