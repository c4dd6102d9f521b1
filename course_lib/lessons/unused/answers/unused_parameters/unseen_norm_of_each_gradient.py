# misconceptions: zero_is_unused, own_view
import torch


def unused_parameters(model, loss):
    trained = {n: p for n, p in model.module.named_parameters() if p.requires_grad}
    grads = torch.autograd.grad(loss, list(trained.values()), retain_graph=True, allow_unused=True)
    norms = {n: 0.0 if g is None else float(g.norm()) for n, g in zip(trained, grads)}
    return sorted(n for n, norm in norms.items() if norm == 0.0)
