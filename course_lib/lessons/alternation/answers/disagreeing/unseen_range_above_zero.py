# misconception: nan_passed
import torch
import torch.distributed as dist


def disagreeing(model):
    names, size = [], dist.get_world_size()
    for name, param in model.module.named_parameters():
        gradient = param.grad if param.grad is not None else torch.full_like(param, 12345.0)
        copies = [torch.zeros_like(gradient) for _ in range(size)]
        dist.all_gather(copies, gradient.contiguous())
        spread = sum(((copy - copies[0]).abs() > 0).sum().item() for copy in copies)
        if spread > 0:
            names.append(name)
    return names
