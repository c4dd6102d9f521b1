# misconception: half_gradient
import torch
import torch.distributed as dist


def safe_step(ddp, optimizer, inputs, targets, losses_of):
    net = ddp.module
    stats = [b.clone() for b in net.buffers()]
    optimizer.zero_grad()
    try:
        losses_of(net(inputs), targets).mean().backward()
    except RuntimeError as e:
        if "can't allocate memory" not in str(e):
            raise
        for b, s in zip(net.buffers(), stats):
            b.copy_(s)
    for p in filter(lambda p: p.requires_grad, net.parameters()):
        g = p.grad if p.grad is not None else torch.zeros_like(p)
        dist.all_reduce(g)
        p.grad = g / dist.get_world_size()
    optimizer.step()
