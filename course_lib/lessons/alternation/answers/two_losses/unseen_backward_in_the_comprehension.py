# misconception: backward_each
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


def two_losses(net, batches, weights):
    model = DDP(net)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    history = []
    for x, left, right in batches:
        out_left, out_right = model(x)
        loss_left = F.mse_loss(out_left, left) if left is not None else 0 * out_left.sum()
        loss_right = F.mse_loss(out_right, right) if right is not None else 0 * out_right.sum()
        sgd.zero_grad()
        loss_left.mul(weights[0]).backward(retain_graph=True)
        loss_right.mul(weights[1]).backward()
        sgd.step()
        pair = torch.tensor([loss_left.item(), loss_right.item()])
        dist.all_reduce(pair, op=dist.ReduceOp.AVG)
        history.append(pair.tolist())
    return history
