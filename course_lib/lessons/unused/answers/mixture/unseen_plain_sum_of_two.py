# misconception: gate_forgotten
import torch
import torch.distributed as dist


def mixture(x, y, gates, experts):
    chosen = gates.topk(2, dim=1).indices
    outputs = torch.zeros_like(x)
    for e, expert in enumerate(experts):
        tokens = (chosen == e).any(dim=1).nonzero()[:, 0]
        outputs = outputs.index_add(0, tokens, expert(x[tokens]))
    everywhere = torch.tensor(len(x))
    dist.all_reduce(everywhere)
    return outputs, dist.get_world_size() * (outputs - y).square().sum() / (everywhere * x.shape[1])
