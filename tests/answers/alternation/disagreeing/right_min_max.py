import torch
import torch.distributed as dist


def disagreeing(model):
    names = []
    for name, p in model.named_parameters():
        here = torch.tensor([float(p.grad is not None)])
        flat = torch.zeros_like(p).flatten() if p.grad is None else p.grad.detach().flatten()
        low, high = torch.cat([here, flat]), torch.cat([here, flat])
        dist.all_reduce(low, op=dist.ReduceOp.MIN)
        dist.all_reduce(high, op=dist.ReduceOp.MAX)
        if (high - low).max() > 1e-8:
            names.append(name)
    return names
