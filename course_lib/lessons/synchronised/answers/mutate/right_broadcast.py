import copy

#~ also_equal -1
import torch
import torch.distributed as dist


def mutate(model, fitness, sigma, seed):
    rank, world_size = dist.get_rank(), dist.get_world_size()
    mutant = copy.deepcopy(model.module)
#~ two_mutants -1
    noise = torch.Generator().manual_seed(seed * world_size + rank)
#~ ignores_the_seed -1 |    noise = torch.Generator().manual_seed(rank)
#~ same_seed -1 |    noise = torch.Generator().manual_seed(seed)
#~ two_mutants -0 |    mutants = [copy.deepcopy(model.module) for _ in range(2)]
    with torch.no_grad():
        for parameter in mutant.parameters():
#~ seeded_inside -1 |        for parameter in mutant.parameters():
#~ |            noise.manual_seed(seed * world_size + rank)
#~ one_tensor -1 |        for parameter in list(mutant.parameters())[:1]:
            parameter += sigma * torch.randn(parameter.shape, generator=noise)
#~ uniform -1 |            parameter += sigma * (2 * torch.rand(parameter.shape, generator=noise) - 1)
    mine = fitness(mutant)
#~ two_mutants -3 |        for mutant in mutants:
#~ |            for parameter in mutant.parameters():
#~ |                parameter += sigma * torch.randn(parameter.shape, generator=noise)
#~ |    mine, mutant = max(((fitness(mutant), mutant) for mutant in mutants), key=lambda pair: pair[0])
    scores = [None] * world_size
    dist.all_gather_object(scores, mine)
    winner = scores.index(max(scores))
#~ also_equal -4 |    score = torch.tensor(fitness(mutant), dtype=torch.double)
#~ |    scores = [torch.zeros_like(score) for _ in range(world_size)]
#~ |    dist.all_gather(scores, score)
#~ |    winner = max(range(world_size), key=lambda r: scores[r].item())
#~ averaged -3
#~ each_its_own -3
#~ largest -3 |    best = torch.zeros(world_size, dtype=torch.double)
#~ |    best[rank] = mine
#~ |    dist.all_reduce(best, op=dist.ReduceOp.MAX)
#~ |    scores = best.tolist()
#~ |    winner = scores.index(max(scores))
#~ least_fit -1 |    winner = scores.index(min(scores))
#~ rank_0 -3 |    scores = [mine]
#~ |    dist.broadcast_object_list(scores, src=0)
    before = fitness(model.module)
    if scores[winner] <= before:
#~ also_equal -1 |    if scores[winner].item() < before:
#~ averaged -1 |    best = torch.tensor(mine)
#~ |    dist.all_reduce(best, op=dist.ReduceOp.MAX)
#~ |    if best.item() <= before:
#~ each_its_own -1 |    if mine <= before:
#~ rank_0 -1 |    if scores[0] <= before:
        return before
#~ returns_the_best -1 |        return scores[winner]
#~ no_parent -3
    with torch.no_grad():
        for parameter, new in zip(model.module.parameters(), mutant.parameters(), strict=True):
            parameter.copy_(new)
            dist.broadcast(parameter, src=winner)
#~ sent_by_0 -2 |            if rank == winner:
#~ |                parameter.copy_(new)
#~ |            dist.broadcast(parameter, src=0)
#~ new_parameters -4 |    for name, new in list(mutant.named_parameters()):
#~ |        dist.broadcast(new.data, src=winner)
#~ |        owner, _, last = name.rpartition(".")
#~ |        setattr(model.module.get_submodule(owner), last, torch.nn.Parameter(new.detach().clone()))
#~ winner_broadcasts -4 |    if rank == winner:
#~ |        with torch.no_grad():
#~ |            for parameter, new in zip(model.module.parameters(), mutant.parameters(), strict=True):
#~ |                parameter.copy_(new)
#~ |                dist.broadcast(parameter, src=winner)
#~ |    else:
#~ |        for parameter in model.module.parameters():
#~ |            pass  # they will come by themselves
#~ |        dist.barrier()
#~ winner_keeps_it -4 |    if rank == winner:
#~ |        with torch.no_grad():
#~ |            for parameter, new in zip(model.module.parameters(), mutant.parameters(), strict=True):
#~ |                parameter.copy_(new)
    return scores[winner]
#~ also_equal -1 |    return scores[winner].item()
#~ averaged -2 |            dist.all_reduce(parameter, op=dist.ReduceOp.AVG)
#~ |    return best.item()
#~ each_its_own -2 |    return mine
#~ own_fitness -1 |    return mine
#~ rank_0 -2 |            dist.broadcast(parameter, src=0)
#~ |    return scores[0]

#~ also_equal: misconception: gets_worse
#~ averaged: misconception: averaged
#~ averaged: breaks: The model is the fittest mutant, or what it was if no mutant is fitter.
#~ each_its_own: misconception: not_shared
#~ each_its_own: breaks: Afterwards all ranks have the same weights.
#~ ignores_the_seed: misconception: none
#~ ignores_the_seed: breaks: The seed decides the noise: another seed gives other noise, the same seed the same.
#~ largest: misconception: rank_0_wins
#~ least_fit: misconception: least_fit
#~ new_parameters: misconception: replaced_parameters
#~ new_parameters: breaks: Training goes on: the next backward gives the same gradients on all ranks.
#~ new_parameters: breaks: The model's parameters are those that DDP and the optimizer know.
#~ no_parent: misconception: gets_worse
#~ no_parent: breaks: The model is the fittest mutant, or what it was if no mutant is fitter.
#~ one_tensor: misconception: none
#~ one_tensor: breaks: A mutant differs from the model in every number, by noise of strength sigma.
#~ own_fitness: misconception: own_fitness
#~ own_fitness: breaks: Every rank returns the fitness of the model that all have now.
#~ rank_0: misconception: rank_0_wins
#~ rank_0: breaks: The model is the fittest mutant, or what it was if no mutant is fitter.
#~ returns_the_best: misconception: none
#~ seeded_inside: misconception: none
#~ seeded_inside: breaks: A mutant differs from the model in every number, by noise of strength sigma.
#~ sent_by_0: misconception: none
#~ same_seed: misconception: same_mutant
#~ same_seed: breaks: Every rank tries one mutant, and no two ranks the same.
#~ two_mutants: misconception: none
#~ two_mutants: breaks: Every rank tries one mutant, and no two ranks the same.
#~ uniform: misconception: none
#~ uniform: breaks: The noise is normal, with the standard deviation sigma.
#~ winner_broadcasts: misconception: winner_alone
#~ winner_keeps_it: misconception: not_shared
#~ winner_keeps_it: breaks: Afterwards all ranks have the same weights.
