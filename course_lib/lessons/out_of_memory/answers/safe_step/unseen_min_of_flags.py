# misconception: skipped_by_all
import torch
import torch.distributed as dist


def safe_step(ddp, optimizer, inputs, targets, losses_of):
    snapshot = [(b, b.clone()) for b in ddp.module.buffers()]
    params = [p for p in ddp.module.parameters() if p.requires_grad]
    all_fine = torch.ones(())
    grads = None
    try:
        grads = torch.autograd.grad(losses_of(ddp.module(inputs), targets).sum(), params)
    except RuntimeError as err:
        if "can't allocate memory" not in str(err):
            raise
        all_fine.fill_(0)
        for b, old in snapshot:
            b.data.copy_(old)
    dist.all_reduce(all_fine, op=dist.ReduceOp.MIN)
    if all_fine.item() < 1:
        return
    count = torch.tensor(float(len(targets)))
    dist.all_reduce(count)
    for p, g in zip(params, grads):
        p.grad = g.clone()
        dist.all_reduce(p.grad)
        p.grad.div_(count)
    optimizer.step()
