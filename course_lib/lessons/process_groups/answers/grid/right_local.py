# Each rank makes only its own two, which is fine for groups that are named after their members.
import torch.distributed as dist


def grid(rows, columns):
    row, column = divmod(dist.get_rank(), columns)
    along = [row * columns + c for c in range(columns)]
    down = [r * columns + column for r in range(rows)]
    return tuple(dist.new_group(ranks, use_local_synchronization=True) for ranks in (along, down))
