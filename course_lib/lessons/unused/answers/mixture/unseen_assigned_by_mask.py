# misconception: overwritten
import torch
import torch.distributed as dist


def mixture(x, y, gates, experts):
    top, chosen = gates.topk(2, dim=1)
    outputs = torch.zeros_like(x)
    for e, expert in enumerate(experts):
        hit = chosen == e
        token = hit.any(dim=1)
        gate = (top * hit).sum(dim=1)[token]
        outputs[token] = gate[:, None] * expert(x[token])
    total = torch.tensor(len(x))
    dist.all_reduce(total)
    return outputs, (outputs - y).square().sum() / x.shape[1] * dist.get_world_size() / total
