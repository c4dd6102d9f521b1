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
    counts = torch.bincount(chosen.reshape(-1), minlength=len(experts)).to(x.dtype)
    dist.all_reduce(counts)
    total = counts.sum() / 2
    scale = dist.get_world_size() / total
    loss = (outputs - y).square().sum() / x.shape[1] * scale
    loss = loss + len(experts) * (counts / (2 * total) @ (gates.sum(0) * scale))
    return outputs, loss
