# misconception: own_view
# breaks: Every rank returns the names of the parameters that the loss of at least one rank does not reach.
# breaks: the same list on every rank
import torch


def unused_parameters(model, loss):
    asked = {name: p for name, p in model.module.named_parameters() if p.requires_grad}
    found = torch.autograd.grad(loss, list(asked.values()), retain_graph=True, allow_unused=True)
    return [name for name, gradient in zip(asked, found, strict=True) if gradient is None]
