# misconception: everyone
import torch.distributed as dist


def grid(rows, columns):
    pair = [dist.new_group(), dist.new_group()]
    return pair
