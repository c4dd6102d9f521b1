# misconception: two_ways_at_once
# breaks: The way that was asked for is taken, and no other.
# breaks: with that flag of DDP and nothing else
import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def train(model, batches, way):
    flags = {} if way == "touch_all" else {way: True}
    ddp = DistributedDataParallel(model, **flags)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for x, y, head in batches:
        loss = mse_loss(ddp(x, head), y)
        if way != "find_unused_parameters":
            loss = loss + 0 * sum(parameter.sum() for parameter in ddp.parameters())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return ddp
