# misconceptions: not_sharded, nothing_averaged
# breaks: In the end the weights are those of that process.
import torch
import torch.distributed as dist


def shard(model, make_optimizer, batches, max_norm):
    for tensor in model.state_dict().values():
        dist.broadcast(tensor, src=0)
    optimizer = make_optimizer(model.parameters())
    losses = []
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        losses.append(total.item() / dist.get_world_size())
    return losses
