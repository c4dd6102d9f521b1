# misconception: tolerance
# breaks: Every rank returns the names of the parameters whose gradients differ between ranks.
import torch
import torch.distributed as dist


def disagreeing(model):
    names = []
    for name, p in model.module.named_parameters():
        there = torch.tensor([float(p.grad is not None)])
        gradient = p.grad if p.grad is not None else torch.zeros_like(p)
        mine = torch.cat([gradient.flatten(), there])
        everyones = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
        dist.all_gather(everyones, mine)
        if not all(torch.allclose(one, everyones[0]) for one in everyones):
            names.append(name)
    return names
