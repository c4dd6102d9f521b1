# misconception: mean_of_means
import torch
import torch.distributed as dist
from torch.distributed.nn.functional import all_reduce
from torch.nn.functional import cross_entropy


def contrast(one, other, temperature, sizes):
    start = sum(sizes[: dist.get_rank()])
    stop = start + len(one)

    def gathered(rows):
        room = torch.zeros(sum(sizes), rows.shape[1], dtype=rows.dtype)
        room[start:stop] = rows
        return all_reduce(room)

    a, b = gathered(one), gathered(other)
    places = torch.arange(start, stop)
    forth = cross_entropy(a[start:stop] @ b.T / temperature, places)
    back = cross_entropy(b[start:stop] @ a.T / temperature, places)
    return (forth + back) / 2
