# misconception: workers_ignored
# breaks: Every rank gets the same number of samples.
# breaks: or with several of them
# breaks: for loaders with any number of workers
from torch.utils.data import IterableDataset


class Share(IterableDataset):
    def __init__(self, stream, rank, world_size):
        self.stream, self.rank, self.world_size = stream, rank, world_size

    def __iter__(self):
        for number, sample in enumerate(self.stream):
            if number % self.world_size == self.rank:
                yield sample


def split_stream(stream, rank, world_size):
    return Share(stream, rank, world_size)
