# misconception: one_forward
# breaks: No forward gets more than one micro-batch.
import torch
import torch.distributed as dist


def accumulate(ddp, micro_batches, losses_of):
    inputs, targets = (torch.cat(both) for both in zip(*micro_batches, strict=True))
    total = torch.tensor(float(len(inputs)))
    dist.all_reduce(total)
    ddp.zero_grad()
    loss = losses_of(ddp(inputs), targets).sum() / total
    (loss * dist.get_world_size()).backward()
    loss = loss.detach()
    dist.all_reduce(loss)
    return loss.item()
