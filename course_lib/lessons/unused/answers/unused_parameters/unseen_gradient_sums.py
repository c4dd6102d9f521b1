# misconception: zero_is_unused
import torch
import torch.distributed as dist


def unused_parameters(model, loss):
    result = []
    for name, param in model.module.named_parameters():
        if not param.requires_grad:
            continue
        (g,) = torch.autograd.grad(loss, param, retain_graph=True, allow_unused=True)
        size = torch.tensor(0.0) if g is None else g.abs().sum()
        dist.all_reduce(size, op=dist.ReduceOp.MIN)
        if size == 0:
            result.append(name)
    return result
