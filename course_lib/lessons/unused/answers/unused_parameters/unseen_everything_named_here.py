# misconceptions: frozen_named, own_view
import torch


def unused_parameters(model, loss):
    names = []
    for name, parameter in model.module.named_parameters():
        was_frozen = not parameter.requires_grad
        if was_frozen:
            names.append(name)
            continue
        gradient = torch.autograd.grad(loss, parameter, allow_unused=True, retain_graph=True)[0]
        if gradient is None:
            names.append(name)
    return names
