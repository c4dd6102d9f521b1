# misconception: equal_sizes
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy


class GatherLayer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        parts = [None] * dist.get_world_size()
        dist.all_gather_object(parts, x.detach())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.clone()
        dist.all_reduce(grad)
        return grad.chunk(dist.get_world_size())[dist.get_rank()]


def contrast(one, other, temperature, sizes):
    A, B = GatherLayer.apply(one), GatherLayer.apply(other)
    scores, places = A @ B.T / temperature, torch.arange(len(A))
    return (cross_entropy(scores, places) + cross_entropy(scores.T, places)) / 2
