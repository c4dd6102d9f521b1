# misconception: too_much_dropped
from torch.utils.data import IterableDataset, get_worker_info


def split_stream(stream, rank, world_size):
    class Part(IterableDataset):
        def __iter__(self):
            info = get_worker_info()
            worker, workers = (info.id, info.num_workers) if info else (0, 1)
            turn = []
            for x in stream:
                turn.append(x)
                if len(turn) == workers * world_size:
                    yield turn[rank + world_size * worker]
                    turn.clear()

    return Part()
