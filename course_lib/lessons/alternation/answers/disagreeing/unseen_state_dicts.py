# misconception: weights_compared
import torch
import torch.distributed as dist


def disagreeing(model):
    states = [None for _ in range(dist.get_world_size())]
    dist.all_gather_object(states, model.module.state_dict())
    return sorted(key for key in states[0] if any(not torch.equal(states[0][key], s[key]) for s in states[1:]))
