# misconception: only_norms
import torch
import torch.distributed as dist


def disagreeing(model):
    found = []
    world = dist.get_world_size()
    for name, parameter in model.module.named_parameters():
        if parameter.grad is None:
            mine = ("none",)
        else:
            mine = (f"{parameter.grad.double().sum().item():.9f}",)
        everybody = [None] * world
        dist.all_gather_object(everybody, mine)
        if len(set(everybody)) != 1:
            found.append(name)
    return found
