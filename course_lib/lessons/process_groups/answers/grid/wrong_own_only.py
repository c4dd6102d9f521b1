# misconception: different_groups
# breaks: A sum over each group is the sum over its members.
# breaks: All ranks make the same groups in the same order.
import torch.distributed as dist


def grid(rows, columns):
    row, column = divmod(dist.get_rank(), columns)
    row_group = dist.new_group([row * columns + c for c in range(columns)])
    column_group = dist.new_group([r * columns + column for r in range(rows)])
    return row_group, column_group
