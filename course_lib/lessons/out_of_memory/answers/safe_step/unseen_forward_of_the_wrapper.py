# misconception: own_part
import torch
import torch.distributed as dist


def safe_step(ddp, optimizer, inputs, targets, losses_of):
    copies = [b.clone() for b in ddp.module.buffers()]
    trainable = [p for p in ddp.parameters() if p.requires_grad]
    optimizer.zero_grad()
    n = len(inputs)
    with ddp.no_sync():
        try:
            losses_of(ddp(inputs), targets).sum().backward()
        except RuntimeError as e:
            if "can't allocate memory" not in str(e):
                raise
            n = 0
    if n == 0:
        optimizer.zero_grad()
        for b, c in zip(ddp.module.buffers(), copies):
            b.copy_(c)
    sizes = [None for _ in range(dist.get_world_size())]
    dist.all_gather_object(sizes, n)
    if sum(sizes) == 0:
        return
    for p in trainable:
        g = torch.zeros_like(p) if p.grad is None else p.grad
        dist.all_reduce(g, op=dist.ReduceOp.SUM)
        p.grad = g / sum(sizes)
    optimizer.step()
