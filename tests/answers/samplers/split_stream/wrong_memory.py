# misconception: all_in_memory
# breaks: Samples come out while the stream is read.
# breaks: Samples come out while the stream is read; it may be too long for the memory.
from torch.utils.data import IterableDataset, get_worker_info


class Share(IterableDataset):
    def __init__(self, stream, rank, world_size):
        self.stream, self.rank, self.world_size = stream, rank, world_size

    def __iter__(self):
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        samples = list(self.stream)
        full = len(samples) // self.world_size * self.world_size
        yield from samples[self.rank + self.world_size * worker : full : self.world_size * workers]


def split_stream(stream, rank, world_size):
    return Share(stream, rank, world_size)
