# misconception: backward_each
# The step that the task hands out.
import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def two_losses(net, batches, weights):
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for x, *targets in batches:
        optimizer.zero_grad()
        losses.append([])
        for output, target, weight in zip(model(x), targets, weights):
            loss = mse_loss(output, target) if target is not None else torch.zeros(())
            if target is not None:
                (weight * loss).backward(retain_graph=True)
            losses[-1].append(loss.item())
        optimizer.step()
    return losses
