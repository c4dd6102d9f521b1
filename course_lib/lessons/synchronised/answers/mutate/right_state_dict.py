import copy

import torch
import torch.distributed as dist



def mutate(model, fitness, sigma, seed):
    rank = dist.get_rank()
    torch.manual_seed(seed + 7919 * (rank + 1))
    mutant = copy.deepcopy(model.module)
    vector = torch.nn.utils.parameters_to_vector(mutant.parameters()).detach()
    torch.nn.utils.vector_to_parameters(vector + sigma * torch.randn_like(vector), mutant.parameters())
    told = [None] * dist.get_world_size()
    dist.all_gather_object(told, (fitness(mutant), rank, mutant.state_dict()))
    best, _, state = max(told, key=lambda one: one[:2])
    before = fitness(model.module)
    if best > before:
        model.module.load_state_dict(state)
        return best
    return before
