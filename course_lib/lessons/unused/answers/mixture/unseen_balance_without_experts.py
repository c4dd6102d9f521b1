# misconception: none
import torch
import torch.distributed as dist


def mixture(x, y, gates, experts):
    top, chosen = gates.topk(2, dim=1)
    outputs = torch.zeros_like(x)
    for e, expert in enumerate(experts):
        token, slot = (chosen == e).nonzero(as_tuple=True)
        outputs = outputs.index_add(0, token, expert(x[token]) * top[token, slot, None])
    counts = torch.bincount(chosen.flatten(), minlength=len(experts)).to(x.dtype)
    dist.all_reduce(counts)
    tokens = counts.sum() / 2
    scale = dist.get_world_size() / tokens
    error = (outputs - y).square().mean(dim=1).sum() * scale
    return outputs, error + (counts / (2 * tokens) * gates.sum(0) * scale).sum()
