# misconception: none
# breaks: without workers or with
from torch.utils.data import IterableDataset, get_worker_info


class Share(IterableDataset):
    def __init__(self, stream, rank, world_size):
        self.stream, self.rank, self.world_size = stream, rank, world_size

    def __iter__(self):
        info = get_worker_info()
        worker, workers = info.id, info.num_workers
        for number, samples in enumerate(zip(*[iter(self.stream)] * self.world_size)):
            if number % workers == worker:
                yield samples[self.rank]


def split_stream(stream, rank, world_size):
    return Share(stream, rank, world_size)
