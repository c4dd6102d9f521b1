# A try of its own first. Then all ranks know who is good, and DDP reduces: an empty batch for those that are not.
#~ forward_only -1 |# An empty batch takes the place of the one that has failed, in forward.
import torch
import torch.distributed as dist


def safe_step(ddp, optimizer, inputs, targets, losses_of):
    trained = [p for p in ddp.module.parameters() if p.requires_grad]
    before = [buffer.clone() for buffer in ddp.module.buffers()]
    fits = True
#~ forward_only -3 |    optimizer.zero_grad()
#~ |    loss = None
    try:
        torch.autograd.grad(losses_of(ddp.module(inputs), targets).sum(), trained)
#~ forward_only -1 |        loss = losses_of(ddp(inputs), targets).sum()
    except RuntimeError as error:
        if "can't allocate memory" not in str(error):
            raise
        fits = False
    for buffer, old in zip(ddp.module.buffers(), before, strict=True):
        buffer.copy_(old)  # the good ranks' batches pass a second time
    if not fits:
        inputs, targets = inputs[:0], targets[:0]
    count = torch.tensor(len(inputs))
#~ forward_only -6 |    count = torch.tensor(float(loss is not None) * len(inputs))
#~ |    if loss is None:
#~ |        loss = losses_of(ddp(inputs[:0]), targets[:0]).sum()
    dist.all_reduce(count)
    if count == 0:
        return
    optimizer.zero_grad()
    (losses_of(ddp(inputs), targets).sum() * dist.get_world_size() / count).backward()
#~ forward_only -2 |    (loss * dist.get_world_size() / count).backward()
    optimizer.step()

#~ forward_only: misconception: forward_only
