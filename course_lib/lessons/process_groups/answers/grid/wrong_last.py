# misconception: not_a_member
# breaks: Every rank returns two process groups, and is in both.
import torch.distributed as dist


def grid(rows, columns):
    for row in range(rows):
        row_group = dist.new_group([row * columns + column for column in range(columns)])
    for column in range(columns):
        column_group = dist.new_group([row * columns + column for row in range(rows)])
    return row_group, column_group
