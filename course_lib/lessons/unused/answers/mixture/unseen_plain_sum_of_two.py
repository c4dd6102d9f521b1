# misconception: gate_forgotten
import torch
import torch.distributed as dist


def mixture(x, y, gates, experts):
    chosen = gates.topk(2, dim=1).indices
    outputs = torch.zeros_like(x)
    counts = []
    for e, expert in enumerate(experts):
        tokens = (chosen == e).any(dim=1).nonzero()[:, 0]
        counts.append(len(tokens))
        outputs = outputs.index_add(0, tokens, expert(x[tokens]))
    numbers = torch.tensor([len(x)] + counts, dtype=x.dtype)
    dist.all_reduce(numbers)
    everywhere, counts = numbers[0], numbers[1:]
    ranks = dist.get_world_size()
    error = ranks * (outputs - y).square().sum() / (everywhere * x.shape[1])
    mean_gates = ranks * gates.sum(dim=0) / everywhere
    balance = len(experts) * (counts / (2 * everywhere) * mean_gates).sum()
    return outputs, error + balance
