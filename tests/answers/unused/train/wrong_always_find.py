# misconception: way_ignored
# breaks: The way that was asked for is taken, and no other.
# breaks: How, says `way`
# breaks: with neither
import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def train(model, batches, way):
    ddp = DistributedDataParallel(model, find_unused_parameters=True)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for x, y, head in batches:
        optimizer.zero_grad()
        mse_loss(ddp(x, head), y).backward()
        optimizer.step()
    return ddp
