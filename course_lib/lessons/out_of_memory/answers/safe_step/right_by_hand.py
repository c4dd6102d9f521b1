# No DDP at all in the step: autograd.grad, then one all_reduce a parameter. Statistics are put back by name.
import torch
import torch.distributed as dist


def safe_step(ddp, optimizer, inputs, targets, losses_of):
    net = ddp.module
    parameters = [p for p in net.parameters() if p.requires_grad]
    statistics = {name: buffer.clone() for name, buffer in net.named_buffers()}
    gradients, samples = [torch.zeros_like(p) for p in parameters], torch.zeros(())
    try:
        gradients = list(torch.autograd.grad(losses_of(net(inputs), targets).sum(), parameters))
#~ averaged -1 |        gradients = list(torch.autograd.grad(losses_of(net(inputs), targets).mean(), parameters))
#~ skipped_means -1 |        gradients = list(torch.autograd.grad(losses_of(net(inputs), targets).mean(), parameters))
        samples += len(inputs)
#~ skipped_means -1 |        samples += 1
    except RuntimeError as error:
        if "allocate memory" not in str(error) and not isinstance(error, torch.OutOfMemoryError):
            raise
        net.load_state_dict(statistics, strict=False)
    dist.all_reduce(samples)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        dist.all_reduce(gradient)
        parameter.grad = gradient / samples
#~ averaged -1 |        parameter.grad = gradient / dist.get_world_size()
#~ stepped -1 |        parameter.grad = gradient / samples.clamp(min=1)
    if samples > 0:
#~ averaged -1 |    if True:
#~ skipped_means -1 |    if samples == dist.get_world_size():
#~ stepped -1 |    if True:
        optimizer.step()

#~ averaged: misconception: zeros_counted
#~ skipped_means: misconception: skipped_by_all
#~ stepped: misconception: nobody_good
