# misconception: flag_instead
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel


def two_losses(net, batches, weights):
    net = DistributedDataParallel(net, find_unused_parameters=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    everything = []
    for x, y1, y2 in batches:
        optimizer.zero_grad()
        o1, o2 = net(x)
        l1 = (0.0 * o1).sum() if y1 is None else F.mse_loss(o1, y1)
        l2 = (0.0 * o2).sum() if y2 is None else F.mse_loss(o2, y2)
        (weights[0] * l1 + weights[1] * l2).backward()
        optimizer.step()
        both = [l1.detach().clone(), l2.detach().clone()]
        for each in both:
            dist.all_reduce(each)
            each /= dist.get_world_size()
        everything.append([float(each) for each in both])
    return everything
