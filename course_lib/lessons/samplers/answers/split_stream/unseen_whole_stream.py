# misconception: nothing_split
from torch.utils.data import IterableDataset, get_worker_info


def split_stream(stream, rank, world_size):
    class Everything(IterableDataset):
        def __iter__(self):
            return iter(stream)

    return Everything()
