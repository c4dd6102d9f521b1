import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def train(model, batches, way):
    flags = {} if way == "touch_all" else {way: True}
    ddp = DistributedDataParallel(model, **flags)
#~ always_find -2 |    ddp = DistributedDataParallel(model, find_unused_parameters=True)
#~ both -2 |    ddp = DistributedDataParallel(
#~ |        model, find_unused_parameters=way != "static_graph", static_graph=way == "static_graph"
#~ |    )
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
#~ momentum -1 |    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
    for x, y, head in batches:
#~ head_only -0 |        optimizer.zero_grad()
#~ small_weight -0 |        optimizer.zero_grad()
        loss = mse_loss(ddp(x, head), y)
        if way == "touch_all":
#~ touches_always -1 |        if way != "find_unused_parameters":
            loss = loss + 0 * sum(parameter.sum() for parameter in ddp.parameters())
#~ always_find -3
#~ both -3
#~ module -3
#~ tiny_touch -1 |            loss = loss + 1e-8 * sum(parameter.sum() for parameter in ddp.parameters())
        optimizer.zero_grad()
#~ both -0 |        loss = mse_loss(ddp(x, head), y) + 0 * sum(p.sum() for p in ddp.parameters())
#~ head_only -2 |            loss = loss + 0 * sum(p.sum() for p in model.heads[head].parameters())
#~ one_step -1
#~ small_weight -2 |            loss = loss + 1e-2 * sum(p.sum() for p in ddp.parameters())
        loss.backward()
#~ always_find -1 |        mse_loss(ddp(x, head), y).backward()
#~ module -1 |        mse_loss(ddp.module(x, head), y).backward()
        optimizer.step()
#~ one_step -1 |    optimizer.step()
    return ddp
#~ returns_module -1 |    return ddp.module

#~ always_find: misconception: way_ignored
#~ always_find: breaks: The way that was asked for is taken, and no other.
#~ both: misconception: two_ways_at_once
#~ head_only: misconception: not_touched
#~ module: misconception: around_the_wrapper
#~ module: breaks: All ranks end with the same weights.
#~ momentum: misconception: none
#~ one_step: misconception: none
#~ returns_module: misconception: none
#~ small_weight: misconception: touch_moves
#~ small_weight: breaks: The weights are those of one process that trains on the batches of all ranks.
#~ tiny_touch: misconception: touch_moves
#~ tiny_touch: breaks: Touching gives a parameter that is not used a gradient of exactly zero.
#~ touches_always: misconception: two_ways_at_once
#~ touches_always: breaks: The way that was asked for is taken, and no other.
