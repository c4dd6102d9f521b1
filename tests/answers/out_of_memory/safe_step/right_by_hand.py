# No DDP at all in the step: autograd.grad, then one all_reduce a parameter.
import torch
import torch.distributed as dist


def safe_step(ddp, optimizer, inputs, targets, losses_of):
    parameters = list(ddp.module.parameters())
    gradients, good = [torch.zeros_like(p) for p in parameters], torch.zeros(())
    try:
        gradients = list(torch.autograd.grad(losses_of(ddp.module(inputs), targets).mean(), parameters))
        good = torch.ones(())
    except RuntimeError as error:
        if "allocate memory" not in str(error) and not isinstance(error, torch.OutOfMemoryError):
            raise
    dist.all_reduce(good)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        dist.all_reduce(gradient)
        parameter.grad = gradient / good
    if good > 0:
        optimizer.step()
