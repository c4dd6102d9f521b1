# misconception: around_the_wrapper
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


def two_losses(net, batches, weights):
    ddp = DDP(net)
    opt = torch.optim.SGD(ddp.parameters(), lr=0.1)
    result = []
    for x, a, b in batches:
        pa, pb = net(x)
        la = F.mse_loss(pa, a) if a is not None else 0 * pa.sum()
        lb = F.mse_loss(pb, b) if b is not None else 0 * pb.sum()
        opt.zero_grad()
        (la * weights[0] + lb * weights[1]).backward()
        opt.step()
        losses = torch.tensor([la.item(), lb.item()])
        dist.all_reduce(losses)
        result.append(losses.div(dist.get_world_size()).tolist())
    return result
