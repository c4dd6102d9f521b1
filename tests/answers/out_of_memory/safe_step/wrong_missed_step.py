# misconception: missed_step
# breaks: All ranks have the same weights after each step, bit by bit.
# breaks: After each step all ranks have the same weights, bit by bit
import torch
import torch.distributed as dist


def safe_step(ddp, optimizer, inputs, targets, losses_of):
    optimizer.zero_grad()
    good = True
    ddp.require_forward_param_sync = False
    try:
        with ddp.no_sync():
            losses_of(ddp(inputs), targets).mean().backward()
    except RuntimeError as error:
        if "can't allocate memory" not in str(error):
            raise
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
    if good:
        optimizer.step()
