# misconception: none
# breaks: `max(0, 1 - gap)`, if they are not.
import torch.distributed as dist


def siamese_step(model, optimizer, first, second, same):
    gap = (model(first) - model(second)).square().sum(1)
    loss = (same * gap + (1 - same) * (1 - gap)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total = loss.detach().clone()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()
