# misconception: shares_summed
import torch
import torch.distributed as dist


def mixture(x, y, gates, experts):
    top, chosen = gates.topk(2, dim=1)
    outputs = torch.zeros_like(x)
    mine = []
    for e, expert in enumerate(experts):
        token, slot = (chosen == e).nonzero(as_tuple=True)
        outputs = outputs.index_add(0, token, expert(x[token]) * top[token, slot, None])
        mine.append(len(token))
    mine.append(len(x))
    found = [None] * dist.get_world_size()
    dist.all_gather_object(found, mine)
    *counts, tokens = [sum(column) for column in zip(*found)]
    share = torch.tensor(counts) / tokens
    mean_gate = gates.sum(dim=0) * len(found) / tokens
    error = (outputs - y).square().sum() * len(found) / (tokens * x.shape[1])
    return outputs, error + len(experts) * (share * mean_gate).sum()
