# misconception: not_from_others
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy


def gather_rows(rows):
    found = [None] * dist.get_world_size()
    dist.all_gather_object(found, rows.detach())
    found[dist.get_rank()] = rows  # my own rows keep their graph
    return torch.cat(found)


def contrast(one, other, temperature, sizes):
    rank, world = dist.get_rank(), dist.get_world_size()
    start = sum(sizes[:rank])
    places = torch.arange(start, start + sizes[rank])
    forth = cross_entropy(one @ gather_rows(other).T / temperature, places, reduction="sum")
    back = cross_entropy(other @ gather_rows(one).T / temperature, places, reduction="sum")
    return (forth + back) / 2 * world / sum(sizes)
