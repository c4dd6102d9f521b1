# misconception: first_forward
# breaks: The model may have buffers
import torch
import torch.distributed as dist


def safe_step(ddp, optimizer, inputs, targets, losses_of):
    parameters = list(ddp.parameters())
    gradients, good = [torch.zeros_like(p) for p in parameters], torch.zeros(())
    try:
        with ddp.no_sync():
            gradients = list(torch.autograd.grad(losses_of(ddp(inputs), targets).mean(), parameters))
        good = torch.ones(())
    except RuntimeError as error:
        if "can't allocate memory" not in str(error):
            raise
    dist.all_reduce(good)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        dist.all_reduce(gradient)
        parameter.grad = gradient / good
    if good > 0:
        optimizer.step()
