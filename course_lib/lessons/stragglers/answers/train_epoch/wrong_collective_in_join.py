# misconception: collective_in_join
import torch
import torch.distributed as dist


def train_epoch(ddp, optimizer, batches, losses_of):
    with ddp.join():
        for inputs, targets in batches:
            total = torch.tensor(float(len(inputs)))
            dist.all_reduce(total)
            optimizer.zero_grad()
            (losses_of(ddp(inputs), targets).sum() * dist.get_world_size() / total).backward()
            optimizer.step()
