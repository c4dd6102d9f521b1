# Under no_sync, with the sending of buffers put off for good: nothing in the try waits for anybody.
import torch
import torch.distributed as dist


def safe_step(ddp, optimizer, inputs, targets, losses_of):
    before = [buffer.clone() for buffer in ddp.buffers()]
    optimizer.zero_grad()
    samples = torch.tensor(float(len(inputs)))
    ddp.require_forward_param_sync = False
    try:
        with ddp.no_sync():
            losses_of(ddp(inputs), targets).sum().backward()
    except RuntimeError as error:
        if "can't allocate memory" not in str(error):
            raise
        samples.zero_()
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
    optimizer.step()
