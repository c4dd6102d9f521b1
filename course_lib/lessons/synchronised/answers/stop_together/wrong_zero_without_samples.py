# misconception: mean_of_means
# A rank without samples gives a mean of 0.
import torch, torch.distributed as dist
def stop_together(train_epoch, validate, patience, most):
    best = float("inf"); bad = 0; hist = []
    for e in range(most):
        train_epoch()
        l = validate()
        t = torch.tensor([l.mean()]) if len(l) else torch.zeros(1)
        dist.all_reduce(t, op=dist.ReduceOp.AVG)
        m = t.item(); hist.append(m)
        if m < best: best, bad = m, 0
        else:
            bad += 1
            if bad >= patience: break
    return hist
