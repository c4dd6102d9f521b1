import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def shard(model, make_optimizer, batches, max_norm):
    for tensor in model.state_dict().values():
        dist.broadcast(tensor, src=0)
#~ pieces -2
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
#~ before -0 |    optimizer = make_optimizer(model.parameters())
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
#~ root -2
#~ kept -1 |        fully_shard(block, mesh=mesh, reshard_after_forward=False)
#~ two_at_once -2 |    fully_shard(list(model.blocks[:2]), mesh=mesh)
#~ |    fully_shard(model.blocks[2], mesh=mesh)
    fully_shard(model, mesh=mesh)
#~ head -1
#~ head_and_own_clip -1
    optimizer = make_optimizer(model.parameters())
#~ before -1
    losses = []
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
#~ twice -1 |        (loss / dist.get_world_size()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
#~ apart -1 |        parts = [p.grad.to_local() for p in model.parameters()]
#~ |        norm = torch.nn.utils.get_total_norm(parts)
#~ |        for part in parts:
#~ |            part.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0))
#~ head_and_own_clip -1 |        parts = [p.grad for p in model.parameters()]
#~ |        squares = sum(part.to_local().square().sum() for part in parts if hasattr(part, "to_local"))
#~ |        dist.all_reduce(squares)
#~ |        squares += sum(part.square().sum() for part in parts if not hasattr(part, "to_local"))
#~ |        for part in parts:
#~ |            part.mul_((max_norm / (squares.sqrt() + 1e-6)).clamp(max=1.0).item())
#~ unclipped -1
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
#~ own -1
        losses.append(total.item() / dist.get_world_size())
#~ own -1 |        losses.append(total.item())
#~ a_sum -1 |        losses.append(total.item())
    return losses
#~ nothing -1

#~ a_sum: misconception: none
#~ a_sum: breaks: The losses are those of one process that trains on the batches of all ranks, from rank 0's weights.
#~ apart: misconception: clipped_apart
#~ before: misconception: optimizer_first
#~ head: misconception: head_forgotten
#~ head_and_own_clip: misconception: head_forgotten
#~ kept: misconception: kept_whole
#~ kept: breaks: While a block computes its forward, no other block is whole.
#~ nothing: misconception: none
#~ own: misconception: own_loss
#~ pieces: misconception: pieces
#~ root: misconception: root_only
#~ twice: misconception: averaged_twice
#~ two_at_once: misconception: none
#~ two_at_once: breaks: While a block computes its forward, no other block is whole.
#~ unclipped: misconception: not_clipped
