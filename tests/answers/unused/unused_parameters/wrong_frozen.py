# misconception: frozen_named
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
