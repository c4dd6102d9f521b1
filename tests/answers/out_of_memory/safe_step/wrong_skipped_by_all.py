# misconception: skipped_by_all
# breaks: They are those of one process that has left out the batches of the ranks that failed.
# breaks: The step is then the mean over the samples of all other ranks.
# breaks: One step on the batches that fit.
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
    if not good:
        optimizer.zero_grad()
    count = torch.tensor(float(good))
    dist.all_reduce(count)
    if count < dist.get_world_size():
        return
    for p in ddp.parameters():
        p.grad = torch.zeros_like(p) if p.grad is None else p.grad
        dist.all_reduce(p.grad)
        p.grad /= count
    optimizer.step()
