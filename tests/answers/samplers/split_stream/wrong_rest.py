# misconception: rest_kept
# breaks: Every rank gets the same number of samples.
# breaks: Every rank gets the same number of samples, so that no rank waits at the end.
# breaks: Deal in *rounds* of one sample for each rank
from torch.utils.data import IterableDataset, get_worker_info


class Share(IterableDataset):
    def __init__(self, stream, rank, world_size):
        self.stream, self.rank, self.world_size = stream, rank, world_size

    def __iter__(self):
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        reader, readers = self.rank * workers + worker, self.world_size * workers
        for number, sample in enumerate(self.stream):
            if number % readers == reader:
                yield sample


def split_stream(stream, rank, world_size):
    return Share(stream, rank, world_size)
