# misconception: frozen_named
# breaks: Every rank returns the names of the parameters that the loss of at least one rank does not reach.
# breaks: Only parameters that DDP waits for count: those that were frozen before wrapping do not.
import torch
import torch.distributed as dist


def unused_parameters(model, loss):
    mine = []
    for name, p in model.module.named_parameters():
        if not p.requires_grad:
            mine.append(name)
        elif torch.autograd.grad(loss, p, retain_graph=True, allow_unused=True)[0] is None:
            mine.append(name)
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, mine)
    return sorted(set().union(*everyones))
