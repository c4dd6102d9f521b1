# misconception: gradients_changed
# breaks: The gradients are still what they were.
# breaks: The check must not change any gradient
import torch
import torch.distributed as dist


def disagreeing(model):
    names = []
    for name, p in model.module.named_parameters():
        if p.grad is None:
            p.grad = torch.full_like(p, 99.0)
        before = p.grad.clone()
        dist.all_reduce(p.grad, op=dist.ReduceOp.AVG)
        odd = torch.tensor(float((before - p.grad).abs().max() > 1e-6))
        dist.all_reduce(odd, op=dist.ReduceOp.MAX)
        if odd.item():
            names.append(name)
    return names
