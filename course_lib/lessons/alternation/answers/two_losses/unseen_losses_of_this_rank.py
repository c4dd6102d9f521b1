# misconception: local_losses
import torch
from torch.nn.parallel import DistributedDataParallel as DDP


def two_losses(net, batches, weights):
    ddp = DDP(net)
    opt = torch.optim.SGD(ddp.parameters(), lr=0.1)
    mse = torch.nn.MSELoss()
    history = []
    for x, left, right in batches:
        l, r = ddp(x)
        ll = mse(l, left) if left is not None else l.sum() * 0
        rr = mse(r, right) if right is not None else r.sum() * 0
        loss = weights[0] * ll + weights[1] * rr
        opt.zero_grad()
        loss.backward()
        opt.step()
        history.append((ll.item(), rr.item()))
    return history
