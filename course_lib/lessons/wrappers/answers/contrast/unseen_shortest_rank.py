# misconception: left_out
import torch
from torch.distributed.nn.functional import all_gather
from torch.nn.functional import cross_entropy


def contrast(one, other, temperature, sizes):
    shortest = min(sizes)
    one, other = one[:shortest].contiguous(), other[:shortest].contiguous()
    a = torch.cat(all_gather(one))
    b = torch.cat(all_gather(other))
    scores = a @ b.T / temperature
    places = torch.arange(shortest * len(sizes))
    return (cross_entropy(scores, places) + cross_entropy(scores.T, places)) / 2
