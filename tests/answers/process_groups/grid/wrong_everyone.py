# misconception: everyone
# breaks: The first holds the ranks of its row, the second those of its column.
# breaks: that of its row and that of its column
import torch.distributed as dist


def grid(rows, columns):
    return dist.new_group(), dist.group.WORLD
