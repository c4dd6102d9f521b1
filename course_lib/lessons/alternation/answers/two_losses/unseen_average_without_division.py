# misconception: reduced_twice
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


def two_losses(net, batches, weights):
    ddp = DDP(net)
    params = list(ddp.parameters())
    opt = torch.optim.SGD(params, lr=0.1)
    result = []
    for x, a, b in batches:
        pa, pb = ddp(x)
        la = F.mse_loss(pa, a) if a is not None else 0 * pa.sum()
        lb = F.mse_loss(pb, b) if b is not None else 0 * pb.sum()
        opt.zero_grad()
        (la * weights[0] + lb * weights[1]).backward()
        grads = torch.cat([p.grad.flatten() for p in params])
        dist.all_reduce(grads, op=dist.ReduceOp.SUM)
        for p, g in zip(params, grads.split([p.numel() for p in params])):
            p.grad = g.view_as(p)
        opt.step()
        losses = torch.tensor([la.item(), lb.item()])
        dist.all_reduce(losses)
        result.append(losses.div(dist.get_world_size()).tolist())
    return result
