# misconception: graph_freed
# breaks: loss.backward() can still follow, and gives the averaged gradients.
# breaks: after your check `loss.backward()` must be possible
import torch
import torch.distributed as dist


def unused_parameters(model, loss):
    asked = {name: p for name, p in model.module.named_parameters() if p.requires_grad}
    found = torch.autograd.grad(loss, list(asked.values()), allow_unused=True)
    mine = [name for name, gradient in zip(asked, found, strict=True) if gradient is None]
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, mine)
    return sorted(set().union(*everyones))
