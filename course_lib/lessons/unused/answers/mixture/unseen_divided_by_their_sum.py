# misconception: renormalised
import torch
import torch.distributed as dist


def mixture(x, y, gates, experts):
    top, chosen = gates.topk(2, dim=-1)
    top = top / top.sum(dim=-1, keepdim=True)
    outputs = torch.zeros_like(x)
    for e, expert in enumerate(experts):
        token, place = (chosen == e).nonzero(as_tuple=True)
        outputs = outputs.index_add(0, token, expert(x[token]) * top[token, place].view(-1, 1))
    tokens = torch.tensor(len(x))
    dist.all_reduce(tokens)
    scale = dist.get_world_size() / tokens
    return outputs, (outputs - y).square().mean(dim=1).sum() * scale
