# misconception: collective_in_join
import torch.distributed as dist


def train_epoch(ddp, optimizer, batches, losses_of):
    with ddp.join():
        for x, y in batches:
            optimizer.zero_grad()
            sizes = [None] * dist.get_world_size()
            dist.all_gather_object(sizes, len(x))
            loss = losses_of(ddp(x), y).sum() / sum(sizes) * len(sizes)
            loss.backward()
            optimizer.step()
