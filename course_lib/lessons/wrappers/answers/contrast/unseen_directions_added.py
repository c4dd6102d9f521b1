# misconception: none
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, sizes):
        ctx.sizes = sizes
        parts = [None] * len(sizes)
        dist.all_gather_object(parts, rows.detach())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.clone()
        dist.all_reduce(grad)
        return grad.split(ctx.sizes)[dist.get_rank()], None


def contrast(one, other, temperature, sizes):
    sizes = list(sizes)
    a, b = Gather.apply(one, sizes), Gather.apply(other, sizes)
    scores, places = a @ b.T / temperature, torch.arange(len(a))
    return cross_entropy(scores, places) + cross_entropy(scores.T, places)
