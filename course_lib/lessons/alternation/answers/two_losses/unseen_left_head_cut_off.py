# misconception: detached
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


def two_losses(net, batches, weights):
    ddp = DDP(net)
    opt = torch.optim.SGD(ddp.parameters(), lr=0.1)
    losses = []
    for x, left, right in batches:
        opt.zero_grad()
        l, r = ddp(x)
        first = F.mse_loss(l, l if left is None else left)
        second = F.mse_loss(r, r if right is None else right)
        (weights[1] * second + weights[0] * first.detach() + 0 * l.sum()).backward()
        opt.step()
        mean = torch.stack([first.detach(), second.detach()])
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
        losses.append(mean)
    return losses
