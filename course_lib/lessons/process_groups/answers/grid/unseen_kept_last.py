# misconception: not_a_member
import torch.distributed as dist


def grid(rows, columns):
    ranks = list(range(rows * columns))
    while ranks:
        mine, ranks = ranks[:columns], ranks[columns:]
        row = dist.new_group(mine)
    columns_ = [dist.new_group(list(range(c, rows * columns, columns))) for c in range(columns)]
    return row, columns_[-1]
