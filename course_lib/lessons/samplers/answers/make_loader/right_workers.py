import os

from torch.utils.data import BatchSampler, DataLoader
from torch.utils.data.distributed import DistributedSampler


class Fresh(DistributedSampler):
    def __init__(self, *args, epoch, **kwargs):
        super().__init__(*args, **kwargs)
        self.set_epoch(epoch)


def make_loader(dataset, batch_size, epoch, seed):
    world, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
    sampler = Fresh(dataset, num_replicas=world, rank=rank, shuffle=True, seed=seed, epoch=epoch)
    batches = BatchSampler(sampler, batch_size=batch_size, drop_last=False)
    workers = 1 if len(dataset) < 5 else 0
    return DataLoader(dataset, batch_sampler=batches, num_workers=workers)
