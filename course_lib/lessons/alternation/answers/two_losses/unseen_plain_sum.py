# misconception: weights_lost
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def two_losses(net, batches, weights):
    ddp = DDP(net)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    out = []
    for x, *targets in batches:
        opt.zero_grad()
        loss, row = 0, []
        for prediction, target in zip(ddp(x), targets):
            error = (prediction - (prediction if target is None else target)).pow(2).mean()
            loss += error
            row.append(error.item())
        loss.backward()
        opt.step()
        rows = [None] * dist.get_world_size()
        dist.all_gather_object(rows, row)
        out.append([sum(column) / len(rows) for column in zip(*rows)])
    return out
