# misconception: two_ways_at_once
# breaks: with that flag of DDP and nothing else
import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def train(model, batches, way):
    ddp = DistributedDataParallel(
        model, find_unused_parameters=way != "static_graph", static_graph=way == "static_graph"
    )
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for x, y, head in batches:
        optimizer.zero_grad()
        loss = mse_loss(ddp(x, head), y) + 0 * sum(p.sum() for p in ddp.parameters())
        loss.backward()
        optimizer.step()
    return ddp
