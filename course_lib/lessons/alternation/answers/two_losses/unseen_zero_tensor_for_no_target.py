# misconception: head_unused
import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def two_losses(net, batches, weights):
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []

    def part(output, target):
        return torch.zeros((), requires_grad=True) if target is None else mse_loss(output, target)

    for x, left, right in batches:
        out = model(x)
        parts = [part(out[0], left), part(out[1], right)]
        optimizer.zero_grad()
        torch.stack([w * p for w, p in zip(weights, parts)]).sum().backward()
        optimizer.step()
        mean = torch.stack(parts).detach()
        dist.all_reduce(mean)
        losses.append((mean / dist.get_world_size()).tolist())
    return losses
