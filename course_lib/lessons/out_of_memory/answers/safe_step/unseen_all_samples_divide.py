# misconception: zeros_counted
import torch
import torch.distributed as dist


def is_oom(error):
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def safe_step(ddp, optimizer, inputs, targets, losses_of):
    module = ddp.module
    buffers = list(module.buffers())
    backup = [b.detach().clone() for b in buffers]
    weights = [p for p in module.parameters() if p.requires_grad]
    sums = [torch.zeros_like(p) for p in weights]
    worked = torch.zeros(1)
    try:
        sums = torch.autograd.grad(losses_of(module(inputs), targets).sum(), weights)
        worked[0] = 1
    except RuntimeError as error:
        if not is_oom(error):
            raise
        with torch.no_grad():
            [b.copy_(old) for b, old in zip(buffers, backup)]
    flat = torch.cat([g.reshape(-1) for g in sums] + [worked, torch.tensor([float(inputs.size(0))])])
    dist.all_reduce(flat)
    if flat[-2] == 0:
        return
    flat /= flat[-1].clone()
    at = 0
    for p in weights:
        p.grad = flat[at : at + p.numel()].view_as(p).clone()
        at += p.numel()
    optimizer.step()
