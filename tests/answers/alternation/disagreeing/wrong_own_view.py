# misconception: own_view
# breaks: Every rank returns the names of the parameters whose gradients differ between ranks.
# breaks: the same list on every rank
import torch
import torch.distributed as dist


def disagreeing(model):
    names = []
    for name, p in model.module.named_parameters():
        mine = torch.full_like(p, 99.0) if p.grad is None else p.grad.clone()
        theirs = mine.clone()
        dist.broadcast(theirs, src=0)
        if not torch.equal(mine, theirs):
            names.append(name)
    return names
