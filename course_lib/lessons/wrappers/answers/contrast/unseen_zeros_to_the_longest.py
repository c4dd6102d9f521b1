# misconception: padding_kept
import torch
from torch.distributed.nn.functional import all_gather
from torch.nn.functional import cross_entropy


def contrast(one, other, temperature, sizes):
    missing = max(sizes) - len(one)
    filler = one.new_zeros(missing, one.shape[1])
    A = torch.cat(all_gather(torch.cat([one, filler])))
    B = torch.cat(all_gather(torch.cat([other, filler])))
    scores, places = A @ B.T / temperature, torch.arange(len(A))
    return (cross_entropy(scores, places) + cross_entropy(scores.T, places)) / 2
