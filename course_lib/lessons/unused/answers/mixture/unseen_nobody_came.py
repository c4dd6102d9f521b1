# misconception: idle_skipped
import torch
import torch.distributed as dist


def mixture(x, y, gates, experts):
    best, chosen = torch.topk(gates, 2, dim=1)
    outputs = torch.zeros_like(x)
    for number, expert in enumerate(experts):
        token, slot = torch.where(chosen == number)
        if len(token) == 0:
            continue
        outputs = outputs.index_add(0, token, best[token, slot].unsqueeze(1) * expert(x[token]))
    tokens = torch.tensor(len(x))
    dist.all_reduce(tokens)
    return outputs, (outputs - y).pow(2).sum() / x.shape[1] * dist.get_world_size() / tokens
