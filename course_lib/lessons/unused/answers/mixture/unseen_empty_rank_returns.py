# misconception: left_early
import torch
import torch.distributed as dist


def mixture(x, y, gates, experts):
    if x.shape[0] == 0:
        # nothing to do, but DDP wants a gradient for everything
        nothing = sum(p.sum() for expert in experts for p in expert.parameters())
        return torch.zeros_like(x), 0 * (nothing + gates.sum())
    values, indices = gates.topk(2)
    weights = torch.zeros_like(gates).scatter(1, indices, values)
    chosen = torch.zeros_like(gates).scatter(1, indices, 1.0)
    outputs = torch.zeros_like(x)
    for e, expert in enumerate(experts):
        rows = chosen[:, e].nonzero().squeeze(1)
        outputs = outputs.index_add(0, rows, expert(x[rows]) * weights[rows, e, None])
    total = torch.tensor([float(len(x))])
    dist.all_reduce(total)
    n = total / dist.get_world_size()
    return outputs, ((outputs - y) ** 2).sum() / (n * x.shape[1])
