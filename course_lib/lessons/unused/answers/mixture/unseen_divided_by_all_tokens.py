# misconception: ranks_forgotten
import torch
import torch.distributed as dist


def mixture(x, y, gates, experts):
    values, picks = gates.topk(2, dim=1)
    outputs = torch.zeros_like(x)
    for e in range(len(experts)):
        rows, column = (picks == e).nonzero().unbind(dim=1)
        outputs = outputs.index_add(0, rows, experts[e](x[rows]) * values[rows, column].unsqueeze(-1))
    n = torch.tensor(len(x))
    dist.all_reduce(n)
    return outputs, (outputs - y).square().sum() / (n * x.shape[1])
