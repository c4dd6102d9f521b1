# misconception: missing_gradient
# breaks: Every rank returns the names of the parameters whose gradients differ between ranks.
# breaks: A gradient that is `None` on one rank and a tensor on another is not the same.
import torch
import torch.distributed as dist


def disagreeing(model):
    mine = {name: p.grad for name, p in model.module.named_parameters()}
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, mine)
    names = []
    for name in mine:
        there = [grads[name] for grads in everyones if grads[name] is not None]
        if not all(torch.equal(there[0], grad) for grad in there):
            names.append(name)
    return names
