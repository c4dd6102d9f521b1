# misconception: ranks_counted
import torch
import torch.distributed as dist


def safe_step(ddp, optimizer, inputs, targets, losses_of):
    net = ddp.module
    params = [p for p in net.parameters() if p.requires_grad]
    keep = [b.clone() for b in net.buffers()]
    good = torch.tensor(1)
    try:
        grads = list(torch.autograd.grad(losses_of(net(inputs), targets).mean(), params))
    except RuntimeError as e:
        if "can't allocate memory" not in str(e):
            raise
        for b, k in zip(net.buffers(), keep):
            b.copy_(k)
        good, grads = torch.tensor(0), [p.detach() * 0 for p in params]
    dist.all_reduce(good)
    for g in grads:
        dist.all_reduce(g)
    if int(good) > 0:
        for p, g in zip(params, grads):
            p.grad = g.div(int(good))
        optimizer.step()
