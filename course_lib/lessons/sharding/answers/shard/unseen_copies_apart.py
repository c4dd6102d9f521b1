# misconceptions: not_sharded, nothing_averaged
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard


def shard(model, make_optimizer, batches, max_norm):
    for p in model.parameters():
        dist.broadcast(p.data, src=0)
    opt = make_optimizer(model.parameters())
    history = []
    for x, y in batches:
        opt.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        opt.step()
        every = [torch.zeros(()) for _ in range(dist.get_world_size())]
        dist.all_gather(every, loss.detach())
        history.append(torch.stack(every).mean().item())
    return history
