# misconception: rounds_dropped
# breaks: After the first epoch, all ranks have the weights of one process that took all samples of a round at once.
# breaks: Train for one epoch.
# breaks: all ranks that have a batch number *k* take part
# breaks: Train on all ranks' batches
import torch
import torch.distributed as dist


def train_epoch(ddp, optimizer, batches, losses_of):
    rounds = torch.tensor(len(batches))
    dist.all_reduce(rounds, op=dist.ReduceOp.MIN)
    for inputs, targets in batches[: int(rounds)]:
        total = torch.tensor(float(len(inputs)))
        dist.all_reduce(total)
        optimizer.zero_grad()
        (losses_of(ddp(inputs), targets).sum() * dist.get_world_size() / total).backward()
        optimizer.step()
