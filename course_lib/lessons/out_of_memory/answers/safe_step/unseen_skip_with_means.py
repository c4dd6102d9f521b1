# misconception: skipped_by_all
import torch
import torch.distributed as dist


def safe_step(ddp, optimizer, inputs, targets, losses_of):
    model = ddp.module
    buffers = {n: b.clone() for n, b in model.named_buffers()}
    params = [p for p in model.parameters() if p.requires_grad]
    fail = 0
    try:
        grads = torch.autograd.grad(losses_of(model(inputs), targets).mean(), params)
    except RuntimeError as e:
        if "can't allocate memory" not in str(e):
            raise
        fail = 1
        for n, b in model.named_buffers():
            b.copy_(buffers[n])
    fails = [None] * dist.get_world_size()
    dist.all_gather_object(fails, fail)
    if any(fails):
        return
    for p, g in zip(params, grads):
        dist.all_reduce(g)
        p.grad = g / len(fails)
    optimizer.step()
