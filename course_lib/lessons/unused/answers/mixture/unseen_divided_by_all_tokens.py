# misconception: ranks_forgotten
import torch
import torch.distributed as dist


def mixture(x, y, gates, experts):
    values, picks = gates.topk(2, dim=1)
    outputs = torch.zeros_like(x)
    for e in range(len(experts)):
        rows, column = (picks == e).nonzero().unbind(dim=1)
        outputs = outputs.index_add(0, rows, experts[e](x[rows]) * values[rows, column].unsqueeze(-1))
    stats = torch.zeros(len(experts) + 1)
    stats[:-1] = torch.bincount(picks.flatten(), minlength=len(experts))
    stats[-1] = len(x)
    dist.all_reduce(stats)
    n = stats[-1]
    share = stats[:-1] / (2 * n)
    error = (outputs - y).square().sum() / (n * x.shape[1])
    balance = len(experts) * (share * gates.sum(dim=0) / n).sum()
    return outputs, error + balance
