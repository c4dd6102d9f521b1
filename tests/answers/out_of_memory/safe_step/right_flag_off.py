# Under no_sync, with the sending of buffers put off for good: nothing in the try waits for anybody.
import torch
import torch.distributed as dist


def safe_step(ddp, optimizer, inputs, targets, losses_of):
    ddp.require_forward_param_sync = False
    optimizer.zero_grad()
    failed = None
    try:
        with ddp.no_sync():
            losses_of(ddp(inputs), targets).sum().backward()
    except RuntimeError as error:
        if "can't allocate memory" not in str(error):
            raise
        failed = error
    if failed is not None:
        optimizer.zero_grad()
    samples = torch.tensor(0.0 if failed is not None else float(len(inputs)))
    dist.all_reduce(samples)
    for parameter in ddp.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        dist.all_reduce(parameter.grad)
        if samples:
            parameter.grad /= samples
    if samples:
        optimizer.step()
