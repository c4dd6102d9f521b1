# misconception: divided
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, sizes):
        ctx.start, ctx.size = sum(sizes[: dist.get_rank()]), len(rows)
        everybody = rows.new_zeros(sum(sizes), rows.shape[1])
        everybody[ctx.start : ctx.start + ctx.size] = rows
        dist.all_reduce(everybody)
        return everybody

    @staticmethod
    def backward(ctx, grad):
        grad = grad.clone()
        dist.all_reduce(grad)
        grad /= dist.get_world_size()
        return grad[ctx.start : ctx.start + ctx.size], None


def contrast(one, other, temperature, sizes):
    A, B = Gather.apply(one, sizes), Gather.apply(other, sizes)
    scores, places = A @ B.T / temperature, torch.arange(len(A))
    return (cross_entropy(scores, places) + cross_entropy(scores.T, places)) / 2
