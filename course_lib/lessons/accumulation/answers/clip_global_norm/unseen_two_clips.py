# misconception: parts_apart
import torch
import torch.distributed as dist


def clip_global_norm(shared, own, max_norm):
    with_grad = [p for p in shared if p.grad is not None]
    mine = [p for p in own if p.grad is not None]
    a = sum(float((p.grad**2).sum()) for p in with_grad)
    b = torch.tensor(0.0 + sum(float((p.grad**2).sum()) for p in mine))
    dist.all_reduce(b)
    b = float(b)
    norm = (a + b) ** 0.5
    if norm == norm and norm != float("inf"):
        for params, square in ((with_grad, a), (mine, b)):
            length = square**0.5
            if length > max_norm:
                for p in params:
                    p.grad *= max_norm / length
    return norm
