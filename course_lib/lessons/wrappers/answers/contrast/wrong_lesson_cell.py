# misconceptions: equal_sizes, one_direction
import torch
import torch.distributed as dist


def everyones(x):
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x)
    return torch.cat(parts)


class FromAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return everyones(x)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient.chunk(dist.get_world_size())[dist.get_rank()]


def contrast(one, other, temperature, sizes):
    one, other = FromAll.apply(one), FromAll.apply(other)
    return torch.nn.functional.cross_entropy(one @ other.T / temperature, torch.arange(len(one)))
