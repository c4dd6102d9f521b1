# misconception: frozen_moved
import torch
import torch.distributed as dist


def safe_step(ddp, optimizer, inputs, targets, losses_of):
    net = ddp.module
    before = [b.clone() for b in net.buffers()]
    net.zero_grad()
    samples = float(len(inputs))
    try:
        losses_of(net(inputs), targets).sum().backward()
    except RuntimeError as e:
        if "can't allocate memory" not in str(e):
            raise
        samples = 0.0
        net.zero_grad()
        for b, o in zip(net.buffers(), before):
            b.copy_(o)
    for p in net.parameters():
        if p.grad is None:
            p.grad = torch.zeros_like(p)
    total = torch.tensor(samples)
    dist.all_reduce(total)
    if total.item() == 0.0:
        return
    vector = torch.nn.utils.parameters_to_vector([p.grad for p in net.parameters()])
    dist.all_reduce(vector)
    vector /= total
    offset = 0
    for p in net.parameters():
        p.grad.copy_(vector[offset : offset + p.numel()].view_as(p))
        offset += p.numel()
    optimizer.step()
