# misconception: around_the_wrapper
# breaks: All ranks end with the same weights.
# breaks: Both inputs go through the same wrapped model.
import torch.distributed as dist


def siamese_step(model, optimizer, first, second, same):
    net = model.module  # "two forwards through DDP do not work"
    gap = (net(first) - net(second)).square().sum(1)
    loss = (same * gap + (1 - same) * (1 - gap).relu()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total = loss.detach()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()
