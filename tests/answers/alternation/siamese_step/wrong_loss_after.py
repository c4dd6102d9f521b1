# misconception: none
# breaks: as it was before the step
import torch
import torch.distributed as dist


def siamese_step(model, optimizer, first, second, same):
    gap = (model(first) - model(second)).square().sum(1)
    loss = (same * gap + (1 - same) * (1 - gap).relu()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        gap = (model.module(first) - model.module(second)).square().sum(1)
        total = (same * gap + (1 - same) * (1 - gap).relu()).mean()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()
