# misconception: none
# breaks: Every rank tries one mutant, and no two ranks the same.
# breaks: Every rank tries *one* mutant of its own
import copy

import torch
import torch.distributed as dist


def mutate(model, fitness, sigma, seed):
    rank, world_size = dist.get_rank(), dist.get_world_size()
    noise = torch.Generator().manual_seed(seed * world_size + rank)
    mutants = [copy.deepcopy(model.module) for _ in range(2)]
    with torch.no_grad():
        for mutant in mutants:
            for parameter in mutant.parameters():
                parameter += sigma * torch.randn(parameter.shape, generator=noise)
    mine, mutant = max(((fitness(mutant), mutant) for mutant in mutants), key=lambda pair: pair[0])
    scores = [None] * world_size
    dist.all_gather_object(scores, mine)
    winner = scores.index(max(scores))
    before = fitness(model.module)
    if scores[winner] <= before:
        return before
    with torch.no_grad():
        for parameter, new in zip(model.module.parameters(), mutant.parameters(), strict=True):
            parameter.copy_(new)
            dist.broadcast(parameter, src=winner)
    return scores[winner]
