# misconception: too_much_dropped
# breaks: Every sample is read, except a rest that does not fill a round of one for each rank.
# breaks: only the samples that do not fill a round are left out
from torch.utils.data import IterableDataset, get_worker_info


class Share(IterableDataset):
    def __init__(self, stream, rank, world_size):
        self.stream, self.rank, self.world_size = stream, rank, world_size

    def __iter__(self):
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        for samples in zip(*[iter(self.stream)] * (self.world_size * workers)):
            yield samples[self.rank * workers + worker]


def split_stream(stream, rank, world_size):
    return Share(stream, rank, world_size)
