# misconception: reduced_twice
# breaks: The weights are those of one process that trains on the pairs of all ranks.
# breaks: Make one step of the optimizer
# breaks: One step
import torch.distributed as dist


def siamese_step(model, optimizer, first, second, same):
    gap = (model(first) - model(second)).square().sum(1)
    loss = (same * gap + (1 - same) * (1 - gap).relu()).mean()
    optimizer.zero_grad()
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    total = loss.detach()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()
