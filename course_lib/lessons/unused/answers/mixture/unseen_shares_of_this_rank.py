# misconception: own_shares
import torch
import torch.distributed as dist


def route(x, gates, experts):
    top, chosen = gates.topk(2, dim=1)
    outputs = torch.zeros_like(x)
    for e, expert in enumerate(experts):
        token, slot = torch.nonzero(chosen == e, as_tuple=True)
        outputs = outputs.index_add(0, token, expert(x[token]) * top[token, slot, None])
    return outputs, chosen


def mixture(x, y, gates, experts):
    outputs, chosen = route(x, gates, experts)
    tokens = torch.tensor(float(len(x)))
    dist.all_reduce(tokens)
    scale = dist.get_world_size() / tokens
    shares = torch.bincount(chosen.flatten(), minlength=len(experts)) / max(chosen.numel(), 1)
    error = (outputs - y).square().sum() / x.shape[1] * scale
    balance = len(experts) * (shares * gates.sum(0) * scale).sum()
    return outputs, error + balance
