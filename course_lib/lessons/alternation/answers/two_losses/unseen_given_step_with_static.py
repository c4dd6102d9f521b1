# misconception: flag_instead
import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel as DDP


def two_losses(net, batches, weights):
    model = DDP(net, static_graph=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    table = []
    for x, left, right in batches:
        optimizer.zero_grad()
        out = model(x)
        row = torch.zeros(2)
        for i, target in enumerate((left, right)):
            if target is None:
                continue
            loss = mse_loss(out[i], target)
            loss.mul(weights[i]).backward(retain_graph=i == 0)
            row[i] = loss.item()
        optimizer.step()
        dist.all_reduce(row)
        table.append(row / dist.get_world_size())
    return table
