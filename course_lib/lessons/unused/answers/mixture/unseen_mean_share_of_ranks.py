# misconception: shares_averaged
import torch
import torch.distributed as dist


def mixture(x, y, gates, experts):
    ranks = dist.get_world_size()
    top, chosen = gates.topk(2, dim=1)
    outputs = torch.zeros_like(x)
    for e, expert in enumerate(experts):
        token, slot = (chosen == e).nonzero(as_tuple=True)
        outputs = outputs.index_add(0, token, top[token, slot, None] * expert(x[token]))

    shares = torch.bincount(chosen.flatten(), minlength=len(experts)).float()
    if len(x):
        shares /= chosen.numel()
    dist.all_reduce(shares)
    shares /= ranks

    tokens = torch.tensor([len(x)])
    dist.all_reduce(tokens)
    here = ranks / tokens.item()
    loss = here * (outputs - y).square().mean(dim=1).sum()
    return outputs, loss + len(experts) * here * (shares * gates.sum(dim=0)).sum()
