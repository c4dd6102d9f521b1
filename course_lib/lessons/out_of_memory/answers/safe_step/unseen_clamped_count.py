# misconception: nobody_good
import torch
import torch.distributed as dist


def safe_step(ddp, optimizer, inputs, targets, losses_of):
    net = ddp.module
    stats = {name: value.clone() for name, value in net.named_buffers()}
    learn = [p for p in net.parameters() if p.requires_grad]
    try:
        out = net(inputs)
        grads = [g.clone() for g in torch.autograd.grad(losses_of(out, targets).sum(), learn)]
        n = torch.tensor([float(len(out))])
    except RuntimeError as problem:
        if "can't allocate memory" not in str(problem):
            raise
        for name, value in net.named_buffers():
            value.copy_(stats[name])
        grads, n = [torch.zeros_like(p) for p in learn], torch.tensor([0.0])
    dist.all_reduce(n)
    n = n.clamp(min=1.0)
    for p, g in zip(learn, grads):
        dist.all_reduce(g)
        p.grad = g / n
    optimizer.step()
