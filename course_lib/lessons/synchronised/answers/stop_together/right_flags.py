# A sum and a count in two all_reduces; then the flags, which are the same on all ranks anyway.
import math

import torch
import torch.distributed as dist


def stop_together(ddp, train_epoch, validate, patience, most):
    means, best, bad, best_state = [], math.inf, 0, None
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
        if judged < best:
            best, bad = judged, 0
            best_state = {name: tensor.clone() for name, tensor in ddp.module.state_dict().items()}
        else:
            bad += 1
        stop = torch.tensor(int(bad >= patience))
        dist.all_reduce(stop, op=dist.ReduceOp.MAX)
#~ all_vote -1 |        dist.all_reduce(stop, op=dist.ReduceOp.MIN)
        if stop:
            break
    if best_state is not None:
        ddp.module.load_state_dict(best_state)
    return means

#~ all_vote: misconception: votes
#~ any_votes: misconception: votes
