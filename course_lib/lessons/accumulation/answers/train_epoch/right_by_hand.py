# No reducer: gradients are added up on the module, and one flat all_reduce ends the group.
#~ summed -1
import torch
import torch.distributed as dist


def train_epoch(ddp, optimizer, micro_batches, loss_of, every):
    net = ddp.module
    while micro_batches:
        group, micro_batches = micro_batches[:every], micro_batches[every:]
        optimizer.zero_grad()
        for inputs, targets in group:
            loss_of(net(inputs), targets).backward()
        flat = torch.cat([p.grad.flatten() for p in net.parameters()])
        dist.all_reduce(flat)
        flat /= dist.get_world_size() * len(group)
#~ summed -1 |        flat /= len(group)
        for p, piece in zip(net.parameters(), flat.split([p.numel() for p in net.parameters()]), strict=True):
            p.grad.copy_(piece.view_as(p))
        optimizer.step()

#~ summed: misconception: summed_over_ranks
