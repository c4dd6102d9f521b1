# misconception: idle_skipped
import torch
import torch.distributed as dist


def mixture(x, y, gates, experts):
    best, chosen = torch.topk(gates, 2, dim=1)
    outputs = torch.zeros_like(x)
    counts = torch.zeros(len(experts) + 1, dtype=x.dtype)
    counts[-1] = len(x)
    for number, expert in enumerate(experts):
        token, slot = torch.where(chosen == number)
        counts[number] = len(token)
        if len(token) == 0:
            continue
        outputs = outputs.index_add(0, token, best[token, slot].unsqueeze(1) * expert(x[token]))
    dist.all_reduce(counts)
    tokens = counts[-1]
    factor = dist.get_world_size() / tokens
    error = (outputs - y).pow(2).sum() / x.shape[1] * factor
    shares = counts[:-1] / (2 * tokens)
    balance = len(experts) * torch.dot(shares, gates.sum(0) * factor)
    return outputs, error + balance
