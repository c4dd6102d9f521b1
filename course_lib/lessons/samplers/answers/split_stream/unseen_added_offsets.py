# misconception: readers_collide
from torch.utils.data import IterableDataset, get_worker_info


import itertools


def split_stream(stream, rank, world_size):
    class Part(IterableDataset):
        def __iter__(self):
            info = get_worker_info()
            worker = info.id if info else 0
            workers = info.num_workers if info else 1
            return itertools.islice(iter(stream), rank + worker, None, world_size * workers)

    return Part()
