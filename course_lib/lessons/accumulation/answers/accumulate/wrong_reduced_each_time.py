# misconception: reduced_each_time
# breaks: Gradients are sent once, however many micro-batches there are.
import torch
import torch.distributed as dist


def accumulate(ddp, micro_batches, losses_of):
    total = torch.tensor(float(sum(len(inputs) for inputs, _ in micro_batches)))
    dist.all_reduce(total)
    ddp.zero_grad()
    loss = torch.zeros(())
    for inputs, targets in micro_batches:
        part = losses_of(ddp(inputs), targets).sum() / total
        (part * dist.get_world_size()).backward()
        loss += part.detach()
    dist.all_reduce(loss)
    return loss.item()
