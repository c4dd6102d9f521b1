# misconception: unused_by_all
import torch
import torch.distributed as dist


def unused_parameters(model, loss):
    names = [n for n, p in model.module.named_parameters() if p.requires_grad]
    params = [p for p in model.module.parameters() if p.requires_grad]
    grads = torch.autograd.grad(loss, params, retain_graph=True, allow_unused=True)
    unused = {n for n, g in zip(names, grads) if g is None}
    lists = [None] * dist.get_world_size()
    dist.all_gather_object(lists, unused)
    for other in lists:
        unused &= other
    return list(unused)
