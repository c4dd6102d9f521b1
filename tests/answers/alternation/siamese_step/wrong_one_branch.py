# misconception: one_branch_detached
# breaks: The weights are those of one process that trains on the pairs of all ranks.
import torch
import torch.distributed as dist


def siamese_step(model, optimizer, first, second, same):
    with torch.no_grad():
        other = model(second)
    gap = (model(first) - other).square().sum(1)
    loss = (same * gap + (1 - same) * (1 - gap).relu()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total = loss.detach()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()
