# misconceptions: only_norms, nan_passed
# breaks: Every rank returns the names of the parameters whose gradients differ between ranks.
import torch
import torch.distributed as dist


def disagreeing(model):
    params = dict(model.module.named_parameters())
    norms = torch.tensor([-1.0 if p.grad is None else p.grad.double().norm().item() for p in params.values()])
    low, high = norms.clone(), norms.clone()
    dist.all_reduce(low, op=dist.ReduceOp.MIN)
    dist.all_reduce(high, op=dist.ReduceOp.MAX)
    return [name for name, gap in zip(params, high - low, strict=True) if gap > 1e-6]
