# misconception: pieces
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard


def shard(model, make_optimizer, batches, max_norm):
    for module in [*model.blocks, model]:
        fully_shard(module)
    optimizer = make_optimizer(model.parameters())

    def step(x, y):
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        all_losses = [None] * dist.get_world_size()
        dist.all_gather_object(all_losses, loss.item())
        return sum(all_losses) / len(all_losses)

    return [step(x, y) for x, y in batches]
