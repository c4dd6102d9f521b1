# misconception: zeros_counted
import torch
import torch.distributed as dist


def safe_step(ddp, optimizer, inputs, targets, losses_of):
    params = [p for p in ddp.module.parameters() if p.requires_grad]
    stats = [b.clone() for b in ddp.module.buffers()]
    try:
        grads = torch.autograd.grad(losses_of(ddp.module(inputs), targets).mean(), params)
    except RuntimeError as e:
        if "can't allocate memory" not in str(e):
            raise
        grads = [torch.zeros_like(p) for p in params]
        for b, s in zip(ddp.module.buffers(), stats):
            b.copy_(s)
    for p, g in zip(params, grads):
        p.grad = g.clone()
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()
    optimizer.step()
