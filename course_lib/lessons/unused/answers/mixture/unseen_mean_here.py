# misconception: own_mean
import torch


def mixture(x, y, gates, experts):
    top, chosen = gates.topk(2, dim=1)
    outputs = torch.zeros_like(x)
    for e, expert in enumerate(experts):
        token, slot = torch.where(chosen == e)
        outputs = outputs.index_add(0, token, top[token, slot, None] * expert(x[token]))
    return outputs, (outputs - y).square().sum() / (max(len(x), 1) * x.shape[1])
