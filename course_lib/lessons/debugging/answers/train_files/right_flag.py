import torch
import torch.distributed as dist
#~ zeros -1

#~ unrepaired -3
culprit = 1
#~ witness -1 |culprit = 0
cause = "skipped"
#~ data -1 |cause = "fewer_batches"
#~ other_cause -1 |cause = "order"


def train_files(ddp, optimizer, files, read):
    for file in files:
        readable = torch.ones(1)
#~ unrepaired -1
#~ zeros -1
        try:
            batch = read(file)
#~ unrepaired -0 |            optimizer.zero_grad()
#~ |            ddp(batch).square().mean().backward()
#~ |            optimizer.step()
#~ zeros -1 |            batch, weight = read(file), 1.0
        except OSError:
            readable.zero_()
        dist.all_reduce(readable, op=dist.ReduceOp.MIN)  # before the first collective of the step
        if not readable:
#~ unrepaired -3
            continue
#~ stops -1 |            break
#~ zeros -4 |            batch, weight = torch.zeros(1, 2), 0.0
        optimizer.zero_grad()
        ddp(batch).square().mean().backward()
#~ zeros -1 |        (weight * ddp(batch).square().mean()).backward()
        optimizer.step()
#~ unrepaired -3 |        print(file, "is done")

#~ data: misconception: data_blamed
#~ data: breaks: cause says why.
#~ other_cause: misconception: other_cause
#~ other_cause: breaks: cause says why.
#~ stops: misconception: none
#~ stops: breaks: A file that one rank cannot read is left out by all ranks; all others are trained on.
#~ unrepaired: misconception: still_shifted
#~ witness: misconception: witness
#~ witness: breaks: culprit is the rank that does something else than the others.
#~ zeros: misconception: half_left_out
#~ zeros: breaks: A file that one rank cannot read is left out by all ranks; all others are trained on.
