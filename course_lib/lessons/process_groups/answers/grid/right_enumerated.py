import torch
import torch.distributed as dist


def grid(rows, columns):
    table = torch.arange(rows * columns).view(rows, columns)
    row, _ = dist.new_subgroups_by_enumeration(table.tolist())
    column, _ = dist.new_subgroups_by_enumeration(table.T.tolist())
    return row, column
