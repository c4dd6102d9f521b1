# misconception: half_gradient
# breaks: They are those of one process that has left out the batches of the ranks that failed.
# breaks: A batch that has run out of memory is left out, all of it
import torch
import torch.distributed as dist


def safe_step(ddp, optimizer, inputs, targets, losses_of):
    optimizer.zero_grad()
    good = True
    ddp.require_forward_param_sync = False
    try:
        with ddp.no_sync():
            losses_of(ddp(inputs), targets).mean().backward()
    except RuntimeError as error:
        if "can't allocate memory" not in str(error):
            raise
        good = False
    count = torch.tensor(float(good))
    dist.all_reduce(count)
    if count == 0:
        return
    for p in ddp.parameters():
        p.grad = torch.zeros_like(p) if p.grad is None else p.grad
        dist.all_reduce(p.grad)
        p.grad /= count
    optimizer.step()
