# misconception: transposed
# breaks: The first holds the ranks of its row, the second those of its column.
import torch.distributed as dist


def grid(rows, columns):
    me = dist.get_rank()
    for row in range(rows):
        ranks = [row * columns + column for column in range(columns)]
        group = dist.new_group(ranks)
        if me in ranks:
            along = group
    for column in range(columns):
        ranks = [row * columns + column for row in range(rows)]
        group = dist.new_group(ranks)
        if me in ranks:
            down = group
    return down, along
