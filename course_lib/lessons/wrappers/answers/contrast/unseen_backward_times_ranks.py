# misconception: counted_often
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy


class AllRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, sizes):
        rank = dist.get_rank()
        ctx.rows = slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))
        parts = [None] * len(sizes)
        dist.all_gather_object(parts, rows.detach())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx, grad):
        total = grad.contiguous().clone()
        dist.all_reduce(total)
        # DDP is going to divide by the number of ranks
        return total[ctx.rows] * dist.get_world_size(), None


def contrast(one, other, temperature, sizes):
    a = AllRows.apply(one, sizes)
    b = AllRows.apply(other, sizes)
    scores = a @ b.T / temperature
    places = torch.arange(len(a))
    return (cross_entropy(scores, places) + cross_entropy(scores.T, places)) / 2
