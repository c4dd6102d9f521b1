# misconception: grad_attribute
import torch
import torch.distributed as dist


def unused_parameters(model, loss):
    names = []
    for name, param in model.module.named_parameters():
        if not param.requires_grad:
            continue
        missing = torch.tensor(0.0 if param.grad is not None else 1.0)
        dist.all_reduce(missing, op=dist.ReduceOp.MAX)
        if missing.item() > 0:
            names.append(name)
    return names
