# misconception: own_mean
import torch
import torch.distributed as dist


def mixture(x, y, gates, experts):
    top, chosen = gates.topk(2, dim=1)
    outputs = torch.zeros_like(x)
    for e, expert in enumerate(experts):
        token, slot = torch.where(chosen == e)
        outputs = outputs.index_add(0, token, top[token, slot, None] * expert(x[token]))
    counts = torch.bincount(chosen.flatten(), minlength=len(experts)).to(x.dtype)
    dist.all_reduce(counts)
    here = max(len(x), 1)
    error = (outputs - y).square().sum() / (here * x.shape[1])
    mean_gate = gates.sum(0) / here
    return outputs, error + len(experts) * torch.sum(counts / counts.sum() * mean_gate)
