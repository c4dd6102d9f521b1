# misconception: nobody_good
# breaks: They are those of one process that has left out the batches of the ranks that failed.
# breaks: Where all ranks fail, there is no step.
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
    for p in ddp.parameters():
        if p.requires_grad:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            dist.all_reduce(p.grad)
            p.grad /= samples
    optimizer.step()
