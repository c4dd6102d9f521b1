# One loop; the losses of all steps are averaged in one collective at the end.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def two_losses(net, batches, weights):
    ddp = DDP(net)
#~ find_unused -1 |    ddp = DDP(net, find_unused_parameters=True)
#~ static -1 |    ddp = DDP(net, static_graph=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    mine = torch.zeros(len(batches), 2)
    for step, (x, *targets) in enumerate(batches):
        ddp.zero_grad()
        outputs = ddp(x)
#~ before_wrapping -1 |        outputs = net(x)
#~ module -1 |        outputs = ddp.module(x)
        total = 0
        for head in (0, 1):
            if targets[head] is None:
                total = total + (outputs[head] * torch.zeros_like(outputs[head])).sum()
#~ untouched -1 |                continue
                continue
            loss = ((outputs[head] - targets[head]) ** 2).mean()
            mine[step, head] = loss.item()
            total = total + weights[head] * loss
#~ detached -1 |            total = total + weights[head] * (loss.detach() if head else loss)
#~ item -1 |            total = total + weights[head] * (loss if head else loss.item())
#~ left_only_touched -1 |            total = total + weights[head] * (loss if head else loss.detach() + 0 * loss)
#~ no_weights -1 |            total = total + loss
#~ only_touched -1 |            total = total + weights[head] * (loss.detach() + 0 * loss if head else loss)
#~ right_twice -1 |            total = total + weights[1] * loss
        total.backward()
#~ reduced_twice -0 |        for parameter in net.parameters():
#~ |            dist.all_reduce(parameter.grad)
        optimizer.step()
    dist.all_reduce(mine)
#~ local -1 |    return mine.tolist()
    return (mine / dist.get_world_size()).tolist()

#~ before_wrapping: misconception: around_the_wrapper
#~ detached: misconception: detached
#~ find_unused: misconception: flag_instead
#~ find_unused: breaks: The model is wrapped in the default mode.
#~ item: misconception: detached
#~ left_only_touched: misconception: detached
#~ local: misconception: local_losses
#~ local: breaks: The losses are the means over all ranks.
#~ module: misconception: around_the_wrapper
#~ module: breaks: All ranks end with the same weights.
#~ no_weights: misconception: weights_lost
#~ no_weights: breaks: The weights are those of one process that trains on the batches of all ranks.
#~ only_touched: misconception: detached
#~ reduced_twice: misconception: reduced_twice
#~ right_twice: misconception: none
#~ static: misconception: flag_instead
#~ untouched: misconception: head_unused
