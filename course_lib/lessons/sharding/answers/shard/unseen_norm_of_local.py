# misconception: clipped_apart
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard


def shard(model, make_optimizer, batches, max_norm):
    world = dist.get_world_size()
    for p in model.parameters():
        dist.broadcast(p.data, src=0)
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    optimizer = make_optimizer(model.parameters())
    result = []
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        locals_ = [p.grad.to_local() for p in model.parameters()]
        norm = sum(float(g.pow(2).sum()) for g in locals_) ** 0.5
        if norm > max_norm:
            for g in locals_:
                g.mul_(max_norm / norm)
        optimizer.step()
        l = loss.detach().clone()
        dist.all_reduce(l)
        result.append(l.item() / world)
    return result
