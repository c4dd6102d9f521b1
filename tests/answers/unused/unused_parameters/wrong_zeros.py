# misconception: zero_is_unused
# breaks: Every rank returns the names of the parameters that the loss of at least one rank does not reach.
# breaks: A gradient of zeros is a gradient.
import torch
import torch.distributed as dist


def unused_parameters(model, loss):
    asked = {name: p for name, p in model.module.named_parameters() if p.requires_grad}
    found = torch.autograd.grad(
        loss, list(asked.values()), retain_graph=True, allow_unused=True, materialize_grads=True
    )
    mine = [name for name, gradient in zip(asked, found, strict=True) if not gradient.any()]
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, mine)
    return sorted(set().union(*everyones))
