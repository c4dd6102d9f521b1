import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def two_losses(net, batches, weights):
    model = DistributedDataParallel(net)
#~ each_with_flag -1 |    model = DistributedDataParallel(net, find_unused_parameters=True)
#~ stacked_each_with_flag -1 |    model = DistributedDataParallel(net, find_unused_parameters=True)
#~ each_with_static -1 |    model = DistributedDataParallel(net, static_graph=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for x, left, right in batches:
#~ skipped -0 |        if left is None and right is None:
#~ |            losses.append(torch.zeros(2))
#~ |            continue
        a, b = model(x)
        # A target that is missing is the output itself: no difference, and no gradient.
        left = a.detach() if left is None else left
        right = b.detach() if right is None else right
        both = torch.stack([mse_loss(a, left), mse_loss(b, right)])
        optimizer.zero_grad()
        (both @ torch.tensor(weights, dtype=both.dtype)).backward()
#~ each -1 |        (weights[0] * mse_loss(a, left)).backward(retain_graph=True)
#~ |        (weights[1] * mse_loss(b, right)).backward()
#~ each_with_flag -1 |        (weights[0] * mse_loss(a, left)).backward(retain_graph=True)
#~ |        (weights[1] * mse_loss(b, right)).backward()
#~ each_with_static -1 |        (weights[0] * mse_loss(a, left)).backward(retain_graph=True)
#~ |        (weights[1] * mse_loss(b, right)).backward()
#~ stacked_each -1 |        (weights[0] * both[0]).backward(retain_graph=True)
#~ |        (weights[1] * both[1]).backward()
#~ stacked_each_with_flag -1 |        (weights[0] * both[0]).backward(retain_graph=True)
#~ |        (weights[1] * both[1]).backward()
#~ in_turns -1 |        (weights[0] * both[0] + 0 * b.sum()).backward()
#~ |        a, b = model(x)
#~ |        (weights[1] * mse_loss(b, right) + 0 * a.sum()).backward()
#~ mean -1 |        (both @ torch.tensor(weights, dtype=both.dtype) / 2).backward()
        optimizer.step()
        everyones = [torch.empty(2) for _ in range(dist.get_world_size())]
        dist.all_gather(everyones, both.detach())
        losses.append(torch.stack(everyones).mean(0))
    return losses

#~ each: misconception: backward_each
#~ each_with_flag: misconception: flag_instead
#~ each_with_static: misconception: flag_instead
#~ in_turns: misconception: backward_each
#~ in_turns: breaks: Every step has one backward.
#~ mean: misconception: none
#~ skipped: misconception: head_unused
#~ stacked_each: misconception: backward_each
#~ stacked_each_with_flag: misconceptions: backward_each, flag_instead
