# misconception: forward_only
# breaks: or anywhere in backward, in any step
# An empty batch takes the place of the one that has failed, in forward.
import torch
import torch.distributed as dist


def safe_step(ddp, optimizer, inputs, targets, losses_of):
    optimizer.zero_grad()
    loss = None
    try:
        loss = losses_of(ddp(inputs), targets).sum()
    except RuntimeError as error:
        if "can't allocate memory" not in str(error):
            raise
    count = torch.tensor(float(loss is not None) * len(inputs))
    if loss is None:
        loss = losses_of(ddp(inputs[:0]), targets[:0]).sum()
    dist.all_reduce(count)
    if count == 0:
        return
    (loss * dist.get_world_size() / count).backward()
    optimizer.step()
