# misconception: ranks_ignored
# breaks: No sample is read twice, by whichever rank and worker.
# breaks: with this rank's share of `stream`
from torch.utils.data import IterableDataset, get_worker_info


class Share(IterableDataset):
    def __init__(self, stream, rank, world_size):
        self.stream, self.rank, self.world_size = stream, rank, world_size

    def __iter__(self):
        info = get_worker_info()
        for number, sample in enumerate(self.stream):
            if info is None or number % info.num_workers == info.id:
                yield sample


def split_stream(stream, rank, world_size):
    return Share(stream, rank, world_size)
