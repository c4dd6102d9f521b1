# misconception: replaced_parameters
# breaks: Training goes on: the next backward gives the same gradients on all ranks.
# breaks: The model's parameters are those that DDP and the optimizer know.
# breaks: Training goes on afterwards, with the same wrapper and optimizer.
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
    for name, new in list(mutant.named_parameters()):
        dist.broadcast(new.data, src=winner)
        owner, _, last = name.rpartition(".")
        setattr(model.module.get_submodule(owner), last, torch.nn.Parameter(new.detach().clone()))
    return scores[winner]
