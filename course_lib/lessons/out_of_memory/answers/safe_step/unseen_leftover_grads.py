# misconception: half_gradient
import torch
import torch.distributed as dist


def safe_step(ddp, optimizer, inputs, targets, losses_of):
    net = ddp.module
    optimizer.zero_grad(set_to_none=True)
    stats = [b.clone() for b in net.buffers()]
    size = len(inputs)
    try:
        losses_of(net(inputs), targets).sum().backward()
    except RuntimeError as e:
        if "memory" not in str(e):
            raise
        size = 0
        for b, s in zip(net.buffers(), stats):
            b.copy_(s)
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, size)
    if not any(everyone):
        return
    for p in net.parameters():
        if not p.requires_grad:
            continue
        if p.grad is None:
            p.grad = torch.zeros_like(p)
        dist.all_reduce(p.grad)
        p.grad.mul_(1 / sum(everyone))
    optimizer.step()
