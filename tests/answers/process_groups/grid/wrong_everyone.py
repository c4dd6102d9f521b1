# misconception: everyone
import torch.distributed as dist


def grid(rows, columns):
    return dist.new_group(), dist.group.WORLD
