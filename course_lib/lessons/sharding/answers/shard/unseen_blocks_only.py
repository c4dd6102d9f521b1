# misconception: head_forgotten
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard


def shard(model, make_optimizer, batches, max_norm):
    for t in [*model.parameters(), *model.buffers()]:
        dist.broadcast(t.detach(), src=0)
    for block in model.blocks:
        fully_shard(block)
    optimizer, out = make_optimizer(model.parameters()), []
    for x, y in batches:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        mean = loss.detach()
        dist.all_reduce(mean)
        out.append(float(mean) / dist.get_world_size())
    return out
