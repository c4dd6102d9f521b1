# misconceptions: frozen_named, unused_by_all
import torch
import torch.distributed as dist


def unused_parameters(model, loss):
    names, params = zip(*model.module.named_parameters())
    wanted = [p for p in params if p.requires_grad]
    grads = iter(torch.autograd.grad(loss, wanted, retain_graph=True, allow_unused=True))
    used = torch.tensor([float(p.requires_grad and next(grads) is not None) for p in params])
    dist.all_reduce(used)
    return [n for n, u in zip(names, used) if u == 0]
