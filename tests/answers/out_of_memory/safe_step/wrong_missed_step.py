# misconception: missed_step
# breaks: All ranks have the same weights after each step, bit by bit.
# breaks: After each step all ranks have the same weights, bit by bit
import torch
import torch.distributed as dist


def safe_step(ddp, optimizer, inputs, targets, losses_of):
    before = [buffer.clone() for buffer in ddp.buffers()]
    optimizer.zero_grad()
    samples, good = torch.tensor(float(len(inputs))), True
    ddp.require_forward_param_sync = False
    try:
        with ddp.no_sync():
            losses_of(ddp(inputs), targets).sum().backward()
    except RuntimeError as error:
        if "can't allocate memory" not in str(error):
            raise
        samples.zero_()
        good = False
        for buffer, old in zip(ddp.buffers(), before, strict=True):
            buffer.copy_(old)
    if not samples:
        optimizer.zero_grad()
    dist.all_reduce(samples)
    if samples == 0:
        return
    for p in ddp.parameters():
        if p.requires_grad:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            dist.all_reduce(p.grad)
            p.grad /= samples
    if good:
        optimizer.step()
