# misconceptions: one_branch_detached, local_loss
import torch
import torch.distributed as dist


def siamese_step(model, optimizer, first, second, same):
    with torch.no_grad():
        a = model(first)
    b = model(second)
    gap = ((a - b) ** 2).sum(-1)
    loss = torch.where(same.bool(), gap, torch.clamp(1 - gap, min=0)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()
