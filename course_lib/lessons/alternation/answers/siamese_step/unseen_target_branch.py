# misconception: one_branch_detached
import torch
import torch.distributed as dist


def siamese_step(model, optimizer, first, second, same):
    a = model(first)
    b = model(second).detach()
    gap = ((a - b) ** 2).sum(-1)
    loss = torch.where(same.bool(), gap, torch.clamp(1 - gap, min=0)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    everyone = [torch.zeros(()) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, loss.detach())
    return float(sum(everyone) / len(everyone))
