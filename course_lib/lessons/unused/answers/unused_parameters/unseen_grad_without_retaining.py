# misconception: graph_freed
import torch
import torch.distributed as dist


def unused_parameters(model, loss):
    params = [(n, p) for n, p in model.module.named_parameters() if p.requires_grad]
    grads = torch.autograd.grad(loss, [p for _, p in params], allow_unused=True)
    flags = torch.tensor([1 if g is None else 0 for g in grads])
    dist.all_reduce(flags)
    return [params[i][0] for i in range(len(params)) if flags[i] > 0]
