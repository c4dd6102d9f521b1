# misconception: everyone
import torch.distributed as dist


def grid(rows, columns):
    column = None
    for c in range(columns):
        ranks = [r for r in range(rows * columns) if r % columns == c]
        group = dist.new_group(ranks)
        if dist.get_rank() in ranks:
            column = group
    return dist.group.WORLD, column
