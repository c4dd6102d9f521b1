# misconception: everyone
import torch.distributed as dist


def grid(rows, columns):
    row = dist.get_rank() // columns
    groups = []
    for start in range(0, rows * columns, columns):
        groups.append(dist.new_group(range(start, start + columns)))
    return groups[row], dist.new_group(list(range(dist.get_world_size())))
