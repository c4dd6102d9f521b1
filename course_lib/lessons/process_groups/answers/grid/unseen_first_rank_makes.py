# misconception: different_groups
import torch.distributed as dist


def grid(rows, columns):
    # The first rank of each line makes its group, the others use it.
    me = dist.get_rank()
    row, column = me // columns, me % columns
    row_group = column_group = dist.group.WORLD
    if column == 0:
        row_group = dist.new_group([row * columns + c for c in range(columns)])
    if row == 0:
        column_group = dist.new_group([r * columns + column for r in range(rows)])
    return row_group, column_group
