# misconception: none
# breaks: make one step of plain SGD (learning rate 0.1) on the `mse_loss` of each batch
import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def train(model, batches, way):
    flags = {} if way == "touch_all" else {way: True}
    ddp = DistributedDataParallel(model, **flags)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for x, y, head in batches:
        loss = mse_loss(ddp(x, head), y)
        if way == "touch_all":
            loss = loss + 0 * sum(parameter.sum() for parameter in ddp.parameters())
        loss.backward()
    optimizer.step()
    return ddp
