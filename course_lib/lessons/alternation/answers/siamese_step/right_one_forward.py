import torch
import torch.distributed as dist


def siamese_step(model, optimizer, first, second, same):
    a, b = model(torch.cat([first, second])).chunk(2)
    gap = ((a - b) ** 2).sum(dim=1)
    loss = torch.where(same > 0, gap, (1 - gap).clamp(min=0)).mean()
    model.zero_grad()
    loss.backward()
    optimizer.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    return mean
