# misconception: around_the_wrapper
# breaks: All ranks end with the same weights.
# breaks: In the end all ranks are to have the weights of one process that trains on the batches of all ranks.
import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def train(model, batches, way):
    flags = {} if way == "touch_all" else {way: True}
    ddp = DistributedDataParallel(model, **flags)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for x, y, head in batches:
        optimizer.zero_grad()
        mse_loss(ddp.module(x, head), y).backward()
        optimizer.step()
    return ddp
