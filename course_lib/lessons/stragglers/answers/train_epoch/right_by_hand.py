# No reducer at all: local sums, one all_reduce with the number of samples at its end.
import torch
import torch.distributed as dist


def train_epoch(ddp, optimizer, batches, losses_of):
    net = ddp.module
    parameters = list(net.parameters())
    batches = iter(batches)
    while True:
        batch = next(batches, None)
        optimizer.zero_grad()
        count = 0
        if batch is not None:
            losses_of(net(batch[0]), batch[1]).sum().backward()
            count = len(batch[0])
#~ means -2 |            losses_of(net(batch[0]), batch[1]).mean().backward()
#~ |            count = 1
#~ means_of_those_left -2 |            losses_of(net(batch[0]), batch[1]).mean().backward()
#~ |            count = 1
#~ dropped_means -2 |            losses_of(net(batch[0]), batch[1]).mean().backward()
#~ |            count = 1
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        flat = torch.cat([*(g.flatten() for g in gradients), torch.tensor([float(count)])])
        dist.all_reduce(flat)
        if flat[-1] == 0:
#~ dropped_means -1 |        if flat[-1] < dist.get_world_size():
            return
#~ means -0 |        flat[-1] = dist.get_world_size()
#~ sums -0 |        flat[-1] = dist.get_world_size()
        for parameter, piece in zip(
            parameters, (flat[:-1] / flat[-1]).split([p.numel() for p in parameters]), strict=True
        ):
            parameter.grad = piece.view_as(parameter).clone()
        optimizer.step()

#~ dropped_means: misconceptions: mean_of_means, rounds_dropped
#~ means: misconception: mean_of_means
#~ means_of_those_left: misconception: mean_of_means
#~ sums: misconception: summed
