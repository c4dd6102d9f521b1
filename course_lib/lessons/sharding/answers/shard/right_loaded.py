# Sharded first; then rank 0's weights are loaded into the parts. The last block needs not be given up.
import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.fsdp import fully_shard


def shard(model, make_optimizer, batches, max_norm):
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    *others, last = model.blocks
    for block in others:
        fully_shard(block)
    fully_shard(last, reshard_after_forward=False)
    fully_shard(model)
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(model, weights if dist.get_rank() == 0 else {}, options=options)
    optimizer = make_optimizer(model.parameters())
    losses = []
    for inputs, targets in batches:
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
        torch.nn.utils.clip_grads_with_norm_(model.parameters(), max_norm, norm)
        optimizer.step()
        optimizer.zero_grad()
#~ never_zeroed -1
        everyones = [None] * dist.get_world_size()
        dist.all_gather_object(everyones, loss.item())
        losses.append(sum(everyones) / len(everyones))
    return losses

#~ never_zeroed: misconception: none
