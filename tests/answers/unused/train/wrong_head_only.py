# misconception: not_touched
# breaks: a loss that touches all parameters
import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def train(model, batches, way):
    flags = {} if way == "touch_all" else {way: True}
    ddp = DistributedDataParallel(model, **flags)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for x, y, head in batches:
        optimizer.zero_grad()
        loss = mse_loss(ddp(x, head), y)
        if way == "touch_all":
            loss = loss + 0 * sum(p.sum() for p in model.heads[head].parameters())
        loss.backward()
        optimizer.step()
    return ddp
