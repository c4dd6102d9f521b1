# misconception: forward_only
import torch
import torch.distributed as dist


def safe_step(ddp, optimizer, inputs, targets, losses_of):
    saved = {k: v.clone() for k, v in ddp.module.named_buffers()}
    ok, total = 1.0, None
    try:
        out = ddp.module(inputs)
        total = losses_of(out, targets).sum()
    except RuntimeError as e:
        if "can't allocate memory" not in str(e):
            raise
        ok = 0.0
        for k, v in ddp.module.named_buffers():
            v.copy_(saved[k])
    n = torch.tensor([ok * inputs.shape[0]])
    dist.all_reduce(n)
    if n.item() == 0:
        return
    params = [p for p in ddp.module.parameters() if p.requires_grad]
    grads = torch.autograd.grad(total, params) if total is not None else [torch.zeros_like(p) for p in params]
    for p, g in zip(params, grads):
        g = g.contiguous()
        dist.all_reduce(g)
        p.grad = g / n
    optimizer.step()
