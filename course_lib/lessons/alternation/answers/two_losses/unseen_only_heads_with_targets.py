# misconception: head_unused
import torch
import torch.distributed as dist
from torch.nn import MSELoss
from torch.nn.parallel import DistributedDataParallel as DDP


def two_losses(net, batches, weights):
    ddp, criterion = DDP(net), MSELoss()
    opt = torch.optim.SGD(ddp.parameters(), lr=0.1)
    table = torch.zeros(len(batches), 2)
    for i, (x, *ys) in enumerate(batches):
        opt.zero_grad()
        terms = []
        for k, (out, y) in enumerate(zip(ddp(x), ys)):
            if y is not None:
                loss = criterion(out, y)
                table[i, k] = float(loss)
                terms.append(weights[k] * loss)
        if terms:
            sum(terms).backward()
        opt.step()
    dist.all_reduce(table, op=dist.ReduceOp.AVG)
    return table.tolist()
