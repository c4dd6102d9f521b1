# Sends nothing but the fitness: every rank can draw the winner's noise again, because it knows the winner's seed.
import torch
import torch.distributed as dist



@torch.no_grad()
def mutate(model, fitness, sigma, seed):
    module = model.module
    kept = [p.clone() for p in module.parameters()]

    def become(rank):
        noise = torch.Generator().manual_seed(31 * seed + rank)
        for p, old in zip(module.parameters(), kept, strict=True):
            p.copy_(old + sigma * torch.randn(p.shape, generator=noise))

    def back():
        for p, old in zip(module.parameters(), kept, strict=True):
            p.copy_(old)

    parent = fitness(module)
    become(dist.get_rank())
    scores = torch.zeros(dist.get_world_size(), dtype=torch.double)
    scores[dist.get_rank()] = fitness(module)
    dist.all_reduce(scores)
    best = int(scores.argmax())
    if scores[best] > parent:
        become(best)
        return scores[best]
    back()
    return torch.tensor(parent)
