# misconception: detached
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def two_losses(net, batches, weights):
    wl, wr = weights
    ddp = DDP(net)
    opt = torch.optim.SGD(ddp.parameters(), lr=0.1)
    logs = []
    for x, left, right in batches:
        opt.zero_grad(set_to_none=False)
        l, r = ddp(x)
        left_loss = torch.nn.functional.mse_loss(l, left) if left is not None else 0 * l.sum()
        with torch.no_grad():
            right_loss = torch.nn.functional.mse_loss(r, right) if right is not None else torch.zeros(())
        (wl * left_loss + wr * right_loss).backward()
        opt.step()
        log = torch.stack([left_loss.detach(), right_loss])
        dist.all_reduce(log, op=dist.ReduceOp.AVG)
        logs.append(tuple(log.tolist()))
    return logs
