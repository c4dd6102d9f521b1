# misconception: like_a_list
# breaks: it has no length and no indices
from torch.utils.data import IterableDataset, get_worker_info


class Share(IterableDataset):
    def __init__(self, stream, rank, world_size):
        self.stream, self.rank, self.world_size = stream, rank, world_size

    def __iter__(self):
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        full = len(self.stream) // self.world_size * self.world_size
        for number, sample in enumerate(self.stream):
            if number < full and number % (self.world_size * workers) == self.rank + self.world_size * worker:
                yield sample


def split_stream(stream, rank, world_size):
    return Share(stream, rank, world_size)
