# misconception: own_view
import torch
import torch.distributed as dist


def disagreeing(model):
    bad = []
    for name, param in model.module.named_parameters():
        grad = torch.full_like(param, -1e3) if param.grad is None else param.grad.detach().clone()
        mean = grad.clone()
        dist.all_reduce(mean)
        mean /= dist.get_world_size()
        if not (grad - mean).abs().max().item() <= 1e-7:
            bad.append(name)
    return bad
