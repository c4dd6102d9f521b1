# misconception: missing_gradient
# breaks: Every rank returns the names of the parameters whose gradients differ between ranks.
# breaks: A gradient that is `None` on one rank and a tensor on another is not the same.
import torch
import torch.distributed as dist


def disagreeing(model):
    names = []
    for name, parameter in model.module.named_parameters():
        mine = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        everyones = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
        dist.all_gather(everyones, mine.contiguous())
        if any(not torch.equal(one, everyones[0]) for one in everyones):
            names.append(name)
    return names
