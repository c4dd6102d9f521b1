# misconception: touch_moves
# breaks: Touching gives a parameter that is not used a gradient of exactly zero.
# breaks: Those that a step does not use get a gradient of exactly zero.
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
            loss = loss + 1e-8 * sum(parameter.sum() for parameter in ddp.parameters())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return ddp
