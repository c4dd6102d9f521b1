# misconception: one_expert
import torch
import torch.distributed as dist


def mixture(x, y, gates, experts):
    gate, choice = gates.max(dim=1)
    outputs = torch.zeros_like(x)
    for e, expert in enumerate(experts):
        rows = torch.nonzero(choice == e).flatten()
        outputs = outputs.index_add(0, rows, gate[rows, None] * expert(x[rows]))
    counts = torch.bincount(choice, minlength=len(experts)).to(x.dtype)
    dist.all_reduce(counts)
    tokens = counts.sum()
    per_token = dist.get_world_size() / tokens
    error = (outputs - y).square().mean(1).sum() * per_token
    balance = len(experts) * (counts / tokens * gates.sum(0) * per_token).sum()
    return outputs, error + balance
