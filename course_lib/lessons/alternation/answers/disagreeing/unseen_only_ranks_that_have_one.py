# misconception: missing_gradient
import torch
import torch.distributed as dist


def disagreeing(model):
    wrong = set()
    for name, param in model.module.named_parameters():
        if param.grad is not None:
            high = param.grad.clone()
            low = param.grad.clone()
            dist.all_reduce(high, op=dist.ReduceOp.MAX)
            dist.all_reduce(low, op=dist.ReduceOp.MIN)
            if not torch.equal(high, low):
                wrong.add(name)
    return list(wrong)
