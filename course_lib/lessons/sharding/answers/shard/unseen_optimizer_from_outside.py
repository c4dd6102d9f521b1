# misconception: optimizer_first
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard


def shard(model, make_optimizer, batches, max_norm):
    for p in model.parameters():
        dist.broadcast(p.data, 0)
    optimizer = make_optimizer(list(model.parameters()))
    [fully_shard(block) for block in model.blocks]
    fully_shard(model.head)
    fully_shard(model)
    losses = torch.zeros(len(batches))
    for i, (x, y) in enumerate(batches):
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        losses[i] = loss.detach()
    dist.all_reduce(losses, op=dist.ReduceOp.SUM)
    return (losses / dist.get_world_size()).tolist()
