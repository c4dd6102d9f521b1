# misconception: different_groups
import torch.distributed as dist


def grid(rows, columns):
    rank = dist.get_rank()
    row_group = column_group = None
    for i in range(rows):
        members = list(range(i * columns, i * columns + columns))
        if rank in members:
            row_group = dist.new_group(members)
    for j in range(columns):
        members = list(range(j, rows * columns, columns))
        if rank in members:
            column_group = dist.new_group(members)
    return [row_group, column_group]
