# misconception: own_view
from torch.autograd import grad


def unused_parameters(model, loss):
    out = []
    for name, p in model.named_parameters():
        if p.requires_grad and grad(loss, [p], retain_graph=True, allow_unused=True) == (None,):
            out.append(name)
    return out
