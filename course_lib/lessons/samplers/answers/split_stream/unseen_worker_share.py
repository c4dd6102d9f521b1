# misconception: ranks_ignored
from torch.utils.data import IterableDataset, get_worker_info


class WorkerStream(IterableDataset):
    def __init__(self, stream):
        self.stream = stream

    def __iter__(self):
        info = get_worker_info()
        k, n = (0, 1) if info is None else (info.id, info.num_workers)
        it = iter(self.stream)
        for place, x in enumerate(it):
            if (place - k) % n == 0:
                yield x


def split_stream(stream, rank, world_size):
    return WorkerStream(stream)
