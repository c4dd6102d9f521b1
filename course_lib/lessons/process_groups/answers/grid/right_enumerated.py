import torch
import torch.distributed as dist


def grid(rows, columns):
    table = torch.arange(rows * columns).view(rows, columns)
    row, _ = dist.new_subgroups_by_enumeration(table.tolist())
    column, _ = dist.new_subgroups_by_enumeration(table.T.tolist())
#~ everyone_in_row -0 |    row = dist.group.WORLD
#~ everyone_in_column -0 |    column = dist.group.WORLD
    return row, column

#~ everyone_in_row: misconception: everyone
#~ everyone_in_column: misconception: everyone
