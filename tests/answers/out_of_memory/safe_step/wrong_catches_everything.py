# misconception: catches_everything
# breaks: An error that has nothing to do with memory is raised.
# breaks: Other errors are raised.
import torch
import torch.distributed as dist


def safe_step(ddp, optimizer, inputs, targets, losses_of):
    optimizer.zero_grad()
    good = True
    ddp.require_forward_param_sync = False
    try:
        with ddp.no_sync():
            losses_of(ddp(inputs), targets).mean().backward()
    except RuntimeError:
        good = False
    if not good:
        optimizer.zero_grad()
    count = torch.tensor(float(good))
    dist.all_reduce(count)
    if count == 0:
        return
    for p in ddp.parameters():
        p.grad = torch.zeros_like(p) if p.grad is None else p.grad
        dist.all_reduce(p.grad)
        p.grad /= count
    optimizer.step()
