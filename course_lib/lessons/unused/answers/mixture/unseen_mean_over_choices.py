# misconception: choices_counted
import torch
import torch.distributed as dist


def mixture(x, y, gates, experts):
    top, chosen = gates.topk(2, dim=1)
    outputs = torch.zeros_like(x)
    for e, expert in enumerate(experts):
        token, slot = (chosen == e).nonzero(as_tuple=True)
        outputs = outputs.index_add(0, token, expert(x[token]) * top[token, slot, None])
    counts = torch.stack([(chosen == e).sum() for e in range(len(experts))])
    dist.all_reduce(counts)
    total = counts.sum()
    scale = dist.get_world_size() / total
    loss = (outputs - y).square().mean(dim=1).sum() * scale
    loss = loss + len(experts) * (counts / total * (gates.sum(dim=0) * scale)).sum()
    return outputs, loss
