# misconception: missed_step
import torch
import torch.distributed as dist


def safe_step(ddp, optimizer, inputs, targets, losses_of):
    net = ddp.module
    old = [b.clone() for b in net.buffers()]
    ps = [p for p in net.parameters() if p.requires_grad]
    message = torch.zeros(sum(p.numel() for p in ps) + 1)
    failed = False
    try:
        gs = torch.autograd.grad(losses_of(net(inputs), targets).sum(), ps)
        message[:-1] = torch.cat([g.flatten() for g in gs])
        message[-1] = inputs.shape[0]
    except RuntimeError as e:
        if "can't allocate memory" not in str(e):
            raise
        failed = True
        for b, o in zip(net.buffers(), old):
            b.copy_(o)
    dist.all_reduce(message)
    if failed or message[-1] == 0:
        return  # nothing to learn from this batch
    for p, g in zip(ps, (message[:-1] / message[-1]).split([p.numel() for p in ps])):
        p.grad = g.reshape(p.shape)
    optimizer.step()
