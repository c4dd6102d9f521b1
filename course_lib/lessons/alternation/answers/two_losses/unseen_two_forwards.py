# misconception: backward_each
import torch
import torch.distributed as dist
from torch import nn


def two_losses(net, batches, weights):
    ddp = nn.parallel.DistributedDataParallel(net)
    opt, mse, result = torch.optim.SGD(ddp.parameters(), 0.1), nn.MSELoss(), []
    for x, *targets in batches:
        opt.zero_grad()
        values = torch.zeros(2)
        for i in range(2):
            outputs = ddp(x)
            loss = 0 * (outputs[0].sum() + outputs[1].sum())
            if targets[i] is not None:
                term = mse(outputs[i], targets[i])
                values[i] = term.detach()
                loss = loss + weights[i] * term
            loss.backward()
        opt.step()
        dist.all_reduce(values)
        result.append(values / dist.get_world_size())
    return result
