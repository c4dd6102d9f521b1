# misconception: reduced_twice
import torch
import torch.distributed as dist


def siamese_step(model, optimizer, first, second, same):
    a, b = model(first), model(second)
    gap = ((a - b) ** 2).sum(-1)
    loss = torch.where(same.bool(), gap, torch.clamp(1 - gap, min=0)).mean()
    optimizer.zero_grad()
    loss.backward()
    for p in model.module.parameters():
        dist.all_reduce(p.grad, op=dist.ReduceOp.SUM)
    optimizer.step()
    everyone = [torch.zeros(()) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, loss.detach())
    return float(sum(everyone) / len(everyone))
