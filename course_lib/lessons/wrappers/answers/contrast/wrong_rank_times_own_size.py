# misconception: wrong_positives
import torch
import torch.distributed as dist
from torch.distributed.nn.functional import all_reduce
from torch.nn.functional import cross_entropy


def contrast(one, other, temperature, sizes):
    rank, world, total = dist.get_rank(), dist.get_world_size(), sum(sizes)
    start = sum(sizes[:rank])
    views = torch.stack([one, other])
    empty = views.new_zeros(2, total, one.shape[1])
    empty = torch.cat([empty[:, :start], views, empty[:, start + len(one) :]], dim=1)
    a, b = all_reduce(empty)
    labels = torch.arange(len(one)) + rank * len(one)
    loss = cross_entropy(one @ b.T / temperature, labels, reduction="sum")
    loss = loss + cross_entropy(other @ a.T / temperature, labels, reduction="sum")
    return loss * world / (2 * total)
