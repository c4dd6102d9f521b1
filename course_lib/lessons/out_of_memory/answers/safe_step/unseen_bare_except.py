# misconception: catches_everything
import torch
import torch.distributed as dist


def safe_step(ddp, optimizer, inputs, targets, losses_of):
    net = ddp.module
    params = [p for p in net.parameters() if p.requires_grad]
    buffers = [(b, b.clone()) for b in net.buffers()]
    try:
        grads = torch.autograd.grad(losses_of(net(inputs), targets).sum(), params)
        count = len(inputs)
    except Exception:
        print("out of memory, batch skipped")
        for b, saved in buffers:
            b.copy_(saved)
        grads = [torch.zeros_like(p) for p in params]
        count = 0
    total = torch.tensor([float(count)])
    dist.all_reduce(total)
    if total == 0:
        return
    for p, g in zip(params, grads):
        g = g.clone()
        dist.all_reduce(g)
        p.grad = g / total
    optimizer.step()
