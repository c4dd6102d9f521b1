# misconception: unused_by_all
import torch
import torch.distributed as dist


def unused_parameters(model, loss):
    world = dist.get_world_size()
    trainable = {n: p for n, p in model.module.named_parameters() if p.requires_grad}
    grads = torch.autograd.grad(loss, tuple(trainable.values()), allow_unused=True, retain_graph=True)
    votes = torch.zeros(len(trainable))
    for i, g in enumerate(grads):
        votes[i] = g is None
    dist.all_reduce(votes)
    return [n for n, v in zip(trainable, votes.tolist()) if v == world]
