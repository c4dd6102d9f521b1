# misconception: own_samples
import torch
from torch.nn.functional import cross_entropy


def contrast(one, other, temperature, sizes):
    # DDP averages over the ranks, so each rank takes care of its own rows
    scores = one @ other.T / temperature
    places = torch.arange(len(one))
    return (cross_entropy(scores, places) + cross_entropy(scores.T, places)) / 2
