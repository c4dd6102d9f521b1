# A sum and a count in two all_reduces; then the flags, which are the same on all ranks anyway.
import math

import torch
import torch.distributed as dist


def stop_together(train_epoch, validate, patience, most):
    means, best, bad = [], math.inf, 0
    for epoch in range(most):
        train_epoch()
        losses = validate()
        total, count = losses.sum().double(), torch.tensor(losses.numel())
        dist.all_reduce(total)
        dist.all_reduce(count)
        mean = total.item() / count.item()
        judged = mean
#~ any_votes -1 |        judged = losses.mean().item()
#~ all_vote -1 |        judged = losses.mean().item()
        means.append(mean)
        bad = 0 if judged < best else bad + 1
        best = min(best, judged)
        stop = torch.tensor(int(bad >= patience))
        dist.all_reduce(stop, op=dist.ReduceOp.MAX)
#~ all_vote -1 |        dist.all_reduce(stop, op=dist.ReduceOp.MIN)
        if stop:
            break
    return means

#~ all_vote: misconception: votes
#~ any_votes: misconception: votes
