# misconception: stream_used_up
# breaks: The next epoch reads as many samples again.
# breaks: in every epoch anew
from torch.utils.data import IterableDataset, get_worker_info


class Share(IterableDataset):
    def __init__(self, rounds, rank):
        self.rounds, self.rank = rounds, rank

    def __iter__(self):
        info = get_worker_info()
        for number, samples in enumerate(self.rounds):
            if info is None or number % info.num_workers == info.id:
                yield samples[self.rank]


def split_stream(stream, rank, world_size):
    return Share(zip(*[iter(stream)] * world_size), rank)
