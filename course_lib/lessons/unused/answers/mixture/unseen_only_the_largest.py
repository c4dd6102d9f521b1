# misconception: one_expert
import torch
import torch.distributed as dist


def mixture(x, y, gates, experts):
    gate, choice = gates.max(dim=1)
    outputs = torch.zeros_like(x)
    for e, expert in enumerate(experts):
        rows = torch.nonzero(choice == e).flatten()
        outputs = outputs.index_add(0, rows, gate[rows, None] * expert(x[rows]))
    tokens = torch.tensor(len(x))
    dist.all_reduce(tokens)
    return outputs, (outputs - y).square().mean(1).sum() * dist.get_world_size() / tokens
