# misconception: nothing_split
# breaks: No sample is read twice, by whichever rank and worker.
from torch.utils.data import IterableDataset


class Share(IterableDataset):
    def __init__(self, stream, rank, world_size):
        self.stream, self.rank, self.world_size = stream, rank, world_size

    def __iter__(self):
        yield from self.stream


def split_stream(stream, rank, world_size):
    return Share(stream, rank, world_size)
