# misconception: two_backwards
import torch
import torch.distributed as dist


def siamese_step(model, optimizer, first, second, same):
    a, b = model(first), model(second)
    gap = ((a - b) ** 2).sum(-1)
    near = (same * gap).sum() / len(same)
    far = ((1 - same) * torch.clamp(1 - gap, min=0)).sum() / len(same)
    optimizer.zero_grad()
    near.backward(retain_graph=True)
    far.backward()
    optimizer.step()
    loss = near + far
    everyone = [torch.zeros(()) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, loss.detach())
    return float(sum(everyone) / len(everyone))
