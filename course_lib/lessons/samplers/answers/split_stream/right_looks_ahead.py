# Each reader takes every so-many-th sample, but lets it go only when the whole round has been seen.
import itertools

from torch.utils.data import IterableDataset, get_worker_info


def split_stream(stream, rank, world_size):
    class Share(IterableDataset):
        def __iter__(self):
            info = get_worker_info()
            first, step = (info.id, info.num_workers) if info else (0, 1)
            samples = iter(stream)
            while len(turn := list(itertools.islice(samples, world_size * step))) >= world_size * (first + 1):
                yield turn[world_size * first + rank]

    return Share()
