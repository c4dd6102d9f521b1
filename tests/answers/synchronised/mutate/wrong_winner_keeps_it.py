# misconception: not_shared
# breaks: Afterwards all ranks have the same weights.
# breaks: becomes the model **on every rank**
import copy

import torch
import torch.distributed as dist


def mutate(model, fitness, sigma, seed):
    rank, world_size = dist.get_rank(), dist.get_world_size()
    mutant = copy.deepcopy(model.module)
    noise = torch.Generator().manual_seed(seed * world_size + rank)
    with torch.no_grad():
        for parameter in mutant.parameters():
            parameter += sigma * torch.randn(parameter.shape, generator=noise)
    mine = fitness(mutant)
    scores = [None] * world_size
    dist.all_gather_object(scores, mine)
    winner = scores.index(max(scores))
    before = fitness(model.module)
    if scores[winner] <= before:
        return before
    if rank == winner:
        with torch.no_grad():
            for parameter, new in zip(model.module.parameters(), mutant.parameters(), strict=True):
                parameter.copy_(new)
    return scores[winner]
