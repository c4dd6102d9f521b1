# misconception: optimizer_left_behind
# breaks: So they have after a second epoch.
# breaks: `optimizer` has momentum, and a second epoch follows
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
