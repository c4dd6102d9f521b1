# misconception: distance_not_squared
import torch
import torch.distributed as dist


def siamese_step(model, optimizer, first, second, same):
    a, b = model(first), model(second)
    distance = torch.nn.functional.pairwise_distance(a, b, eps=0.0)
    loss = (same * distance + (1 - same) * torch.relu(1 - distance)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    everyone = [torch.zeros(()) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, loss.detach())
    return float(sum(everyone) / len(everyone))
