# misconception: averaged
# breaks: The model is the fittest mutant, or what it was if no mutant is fitter.
# breaks: The fittest of all ranks' mutants becomes the model
# breaks: Make the fittest mutant of all ranks the model
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
    before = fitness(model.module)
    best = torch.tensor(mine)
    dist.all_reduce(best, op=dist.ReduceOp.MAX)
    if best.item() <= before:
        return before
    with torch.no_grad():
        for parameter, new in zip(model.module.parameters(), mutant.parameters(), strict=True):
            parameter.copy_(new)
            dist.all_reduce(parameter, op=dist.ReduceOp.AVG)
    return best.item()
