# misconception: gets_worse
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
    score = torch.tensor(fitness(mutant), dtype=torch.double)
    scores = [torch.zeros_like(score) for _ in range(world_size)]
    dist.all_gather(scores, score)
    winner = max(range(world_size), key=lambda r: scores[r].item())
    before = fitness(model.module)
    if scores[winner].item() < before:
        return before
    with torch.no_grad():
        for parameter, new in zip(model.module.parameters(), mutant.parameters(), strict=True):
            parameter.copy_(new)
            dist.broadcast(parameter, src=winner)
    return scores[winner].item()
