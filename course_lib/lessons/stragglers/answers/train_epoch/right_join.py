# Join, and afterwards the state of the optimizer from a rank that was there to the end.
import torch
#~ optimizer_left_behind -2
import torch.distributed as dist


def train_epoch(ddp, optimizer, batches, losses_of):
    world = dist.get_world_size()
    lists = [None] * world
    dist.all_gather_object(lists, [len(targets) for _, targets in batches])
    with ddp.join():
        for number, (inputs, targets) in enumerate(batches):
            total = sum(sizes[number] for sizes in lists if len(sizes) > number)
            optimizer.zero_grad()
            (losses_of(ddp(inputs), targets).sum() * world / total).backward()
            optimizer.step()
    last = max(range(world), key=lambda rank: len(lists[rank]))
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            state = optimizer.state[parameter]
            if state.get("momentum_buffer") is None:
                state["momentum_buffer"] = torch.zeros_like(parameter)
            dist.broadcast(state["momentum_buffer"], src=last)
#~ optimizer_left_behind -7

#~ optimizer_left_behind: misconception: optimizer_left_behind
#~ optimizer_left_behind: breaks: So they have after a second epoch.
