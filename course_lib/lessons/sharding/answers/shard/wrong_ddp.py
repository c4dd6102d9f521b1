# misconception: not_sharded
# breaks: A rank holds its own part of weights, gradients and optimizer.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def shard(model, make_optimizer, batches, max_norm):
    ddp = DistributedDataParallel(model)
    optimizer = make_optimizer(ddp.parameters())
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
