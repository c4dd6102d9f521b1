# Only what the optimizer holds is cut.
# misconception: not_sharded
# breaks: A rank holds its own part of weights, gradients and optimizer.
import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel


def shard(model, make_optimizer, batches, max_norm):
    ddp = DistributedDataParallel(model)
    options = make_optimizer(ddp.parameters()).defaults
    optimizer = ZeroRedundancyOptimizer(
        ddp.parameters(), torch.optim.SGD, lr=options["lr"], momentum=options["momentum"]
    )
    losses = []
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(ddp(inputs), targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(ddp.parameters(), max_norm)
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        losses.append(total.item() / dist.get_world_size())
    return losses
