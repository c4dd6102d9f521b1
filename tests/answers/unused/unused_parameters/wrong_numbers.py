# misconception: none
# breaks: Return the names of all parameters
import torch
import torch.distributed as dist


def unused_parameters(model, loss):
    asked = {name: p for name, p in model.module.named_parameters() if p.requires_grad}
    found = torch.autograd.grad(loss, list(asked.values()), retain_graph=True, allow_unused=True)
    mine = [number for number, gradient in enumerate(found) if gradient is None]
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, mine)
    return sorted(set().union(*everyones))
