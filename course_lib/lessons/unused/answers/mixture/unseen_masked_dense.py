# misconception: everyone_computes
import torch
import torch.distributed as dist


def mixture(x, y, gates, experts):
    top, index = gates.topk(2, dim=1)
    weights = torch.zeros_like(gates).scatter(1, index, top)
    results = torch.stack([expert(x) for expert in experts], dim=1)
    outputs = (weights.unsqueeze(2) * results).sum(dim=1)

    tokens = torch.tensor(len(x))
    dist.all_reduce(tokens)
    return outputs, (outputs - y).square().mean(dim=1).sum() * dist.get_world_size() / tokens
