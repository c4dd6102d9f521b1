# misconception: averaged_twice
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard


def shard(model, make_optimizer, batches, max_norm):
    world = dist.get_world_size()
    with torch.no_grad():
        for p in model.parameters():
            dist.broadcast(p, src=0)
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    optimizer = make_optimizer(model.parameters())
    result = []
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        for p in model.parameters():
            p.grad /= world
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        l = loss.detach() / world
        dist.all_reduce(l)
        result.append(l.item())
    return result
