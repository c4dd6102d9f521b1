# The sample is kept until the last one of its round has come.
from torch.utils.data import IterableDataset, get_worker_info


class Mine(IterableDataset):
    def __init__(self, source, me, all_of_us):
        super().__init__()
        self.source, self.me, self.all_of_us = source, me, all_of_us

    def __iter__(self):
        info = get_worker_info()
        readers = 1 if info is None else info.num_workers
        reader = 0 if info is None else info.id
        for count, sample in enumerate(self.source):
            turn, seat = divmod(count, self.all_of_us)
            if seat == self.me:
                kept = sample
            if seat == self.all_of_us - 1 and turn % readers == reader:
                yield kept


def split_stream(stream, rank, world_size):
    return Mine(stream, rank, world_size)
