# misconception: not_clipped
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard


def shard(model, make_optimizer, batches, max_norm):
    state = model.state_dict()
    for name in sorted(state):
        dist.broadcast(state[name], 0)
    for layer in reversed(model.blocks):
        fully_shard(layer, reshard_after_forward=True)
    fully_shard(model, reshard_after_forward=True)
    optimizer = make_optimizer(model.parameters())
    losses = []
    for inputs, targets in batches:
        out = model(inputs)
        loss = torch.nn.functional.mse_loss(out, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        dist.all_reduce(value := loss.detach().clone())
        losses.append(value.item() / dist.get_world_size())
    return losses
