# misconception: two_backwards
# breaks: All ranks end with the same weights.
# breaks: with the gradient over the pairs of *all* ranks
import torch.distributed as dist


def siamese_step(model, optimizer, first, second, same):
    gap = (model(first) - model(second)).square().sum(1)
    pull = (same * gap).mean()
    push = ((1 - same) * (1 - gap).relu()).mean()
    optimizer.zero_grad()
    pull.backward(retain_graph=True)
    push.backward()
    optimizer.step()
    total = (pull + push).detach()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()
