# misconception: local_loss
import torch
import torch.distributed as dist


def siamese_step(model, optimizer, first, second, same):
    a, b = model(torch.cat((first, second))).split(len(first))
    gap = ((a - b) ** 2).sum(-1)
    loss = torch.where(same.bool(), gap, torch.clamp(1 - gap, min=0)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()
