# misconception: workers_ignored
from torch.utils.data import IterableDataset, get_worker_info


class RankStream(IterableDataset):
    def __init__(self, stream, rank, world_size):
        self.args = stream, rank, world_size

    def __iter__(self):
        stream, rank, world_size = self.args
        turn = []
        for x in stream:
            turn.append(x)
            if len(turn) == world_size:
                yield turn[rank]
                turn = []


split_stream = RankStream
