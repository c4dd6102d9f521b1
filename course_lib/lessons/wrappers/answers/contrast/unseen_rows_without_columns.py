# misconception: one_direction
import torch
import torch.distributed as dist
from torch.distributed.nn.functional import all_reduce
from torch.nn.functional import cross_entropy, pad


def contrast(one, other, temperature, sizes):
    before = sum(sizes[: dist.get_rank()])
    behind = sum(sizes[dist.get_rank() + 1 :])
    A, B = (all_reduce(pad(rows, (0, 0, before, behind))) for rows in (one, other))
    return cross_entropy(A @ B.T / temperature, torch.arange(len(A)))
