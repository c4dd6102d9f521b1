# misconception: tolerance
import torch
import torch.distributed as dist


def disagreeing(model):
    names = []
    for name, p in model.module.named_parameters():
        there = torch.tensor([float(p.grad is not None)])
        gradient = p.grad if p.grad is not None else torch.zeros_like(p)
        mine = torch.cat([gradient.flatten(), there])
        mean = mine.clone()
        dist.all_reduce(mean)
        mean /= dist.get_world_size()
        differs = torch.tensor(float((mine - mean).abs().max() > 1e-6))
        dist.all_reduce(differs)
        if differs > 0:
            names.append(name)
    return names
