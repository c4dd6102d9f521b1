# Sums through DDP, the division at the end; sizes gathered as objects.
#~ own_loss -1
import torch.distributed as dist


def accumulate(ddp, micro_batches, losses_of):
    ddp.zero_grad()
    *others, last = micro_batches
    total = 0.0
    with ddp.no_sync():
        for inputs, targets in others:
            loss = losses_of(ddp(inputs), targets).sum()
            loss.backward()
            total += loss.item()
    loss = losses_of(ddp(last[0]), last[1]).sum()
    loss.backward()
    mine = total + loss.item(), sum(len(inputs) for inputs, _ in micro_batches)
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, mine)
    samples = sum(count for _, count in everyones)
    for p in ddp.parameters():
        p.grad.mul_(dist.get_world_size() / samples)
    return sum(part for part, _ in everyones) / samples
#~ own_loss -1 |    return mine[0] / mine[1]

#~ own_loss: misconception: none
#~ own_loss: breaks: Every rank returns the mean loss over all samples of all ranks.
