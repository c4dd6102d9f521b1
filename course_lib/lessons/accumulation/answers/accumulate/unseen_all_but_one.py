# misconception: not_reduced
import torch
import torch.distributed as dist


def accumulate(ddp, micro_batches, losses_of):
    counted = torch.tensor([0.0, 0.0])
    for inputs, _ in micro_batches:
        counted[1] += len(inputs)
    everyone = counted.clone()
    dist.all_reduce(everyone)
    ddp.zero_grad()
    with ddp.no_sync():
        for inputs, targets in micro_batches:
            part = losses_of(ddp(inputs), targets).sum()
            counted[0] += part.detach()
            (part * dist.get_world_size() / everyone[1]).backward()
    dist.all_reduce(counted)
    return (counted[0] / counted[1]).item()
