import torch.distributed as dist


def siamese_step(model, optimizer, first, second, same):
    # Two backwards with a forward before each: the first one stays local, the second averages the sum.
    optimizer.zero_grad()
    with model.no_sync():
        gap = (model(first) - model(second)).square().sum(1)
        pull = (same * gap).mean()
        pull.backward()
    gap = (model(first) - model(second)).square().sum(1)
    push = ((1 - same) * (1 - gap).relu()).mean()
    push.backward()
    optimizer.step()
    losses = [None] * dist.get_world_size()
    dist.all_gather_object(losses, (pull + push).item())
    return sum(losses) / len(losses)
