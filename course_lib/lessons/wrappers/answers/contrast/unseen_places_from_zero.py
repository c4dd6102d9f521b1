# misconception: wrong_positives
import torch
import torch.distributed as dist
from torch.distributed.nn.functional import all_reduce
from torch.nn.functional import cross_entropy


def spread(rows, sizes):
    start = sum(sizes[: dist.get_rank()])
    table = torch.zeros(sum(sizes), rows.shape[1], dtype=rows.dtype)
    index = torch.arange(start, start + len(rows))
    return all_reduce(table.index_add(0, index, rows))


def contrast(one, other, temperature, sizes):
    a, b = spread(one, sizes), spread(other, sizes)
    labels = torch.arange(len(one))
    there = cross_entropy(one @ b.T / temperature, labels, reduction="sum")
    back = cross_entropy(other @ a.T / temperature, labels, reduction="sum")
    return (there + back) / 2 * len(sizes) / sum(sizes)
