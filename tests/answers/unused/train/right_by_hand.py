# Touches with an inner product, steps by hand.
import torch
from torch.nn.parallel import DistributedDataParallel as DDP


def train(model, batches, way):
    if way == "find_unused_parameters":
        wrapped = DDP(model, find_unused_parameters=True)
    elif way == "static_graph":
        wrapped = DDP(model, static_graph=True)
    else:
        wrapped = DDP(model)
    for x, y, head in batches:
        wrapped.zero_grad(set_to_none=True)
        loss = ((wrapped(x, head) - y) ** 2).mean()
        if way == "touch_all":
            for parameter in model.parameters():
                loss = loss + (parameter * torch.zeros_like(parameter)).sum()
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter -= 0.1 * parameter.grad
    return wrapped
