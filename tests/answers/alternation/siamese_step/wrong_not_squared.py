# misconception: distance_not_squared
# breaks: Every rank returns the mean loss over the pairs of all ranks.
# breaks: With `gap` the squared distance of the two outputs
# breaks: `gap`, if they are the same,
import torch.distributed as dist


def siamese_step(model, optimizer, first, second, same):
    gap = (model(first) - model(second)).norm(dim=1)
    loss = (same * gap + (1 - same) * (1 - gap).relu()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total = loss.detach().clone()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()
