# misconception: everyone_computes
import torch
import torch.distributed as dist


def mixture(x, y, gates, experts):
    top, index = gates.topk(2, dim=1)
    weights = torch.zeros_like(gates).scatter(1, index, top)
    results = torch.stack([expert(x) for expert in experts], dim=1)
    outputs = (weights.unsqueeze(2) * results).sum(dim=1)

    counts = torch.bincount(index.flatten(), minlength=len(experts))
    dist.all_reduce(counts)
    choices = counts.sum()
    scale = 2 * dist.get_world_size() / choices
    loss = (outputs - y).square().mean(dim=1).sum() * scale
    balance = len(experts) * (counts / choices * gates.sum(0) * scale).sum()
    return outputs, loss + balance
