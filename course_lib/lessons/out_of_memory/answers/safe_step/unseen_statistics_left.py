# misconception: statistics
import torch
import torch.distributed as dist


def safe_step(ddp, optimizer, inputs, targets, losses_of):
    params = [p for p in ddp.module.parameters() if p.requires_grad]
    try:
        loss = losses_of(ddp.module(inputs), targets).sum()
        grads = torch.autograd.grad(loss, params)
        flat = torch.cat([g.flatten() for g in grads] + [torch.tensor([float(len(inputs))])])
    except RuntimeError as e:
        if "can't allocate memory" not in str(e):
            raise
        flat = torch.zeros(sum(p.numel() for p in params) + 1)
    dist.all_reduce(flat)
    samples = flat[-1].item()
    if samples:
        start = 0
        for p in params:
            p.grad = flat[start : start + p.numel()].reshape(p.shape) / samples
            start += p.numel()
        optimizer.step()
