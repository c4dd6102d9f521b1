# misconception: transposed
import numpy as np
import torch.distributed as dist


def grid(rows, columns):
    ranks = np.arange(rows * columns).reshape(rows, columns)
    lines = [dist.new_group(line.tolist()) for line in ranks], [dist.new_group(line.tolist()) for line in ranks.T]
    ((row, column),) = np.argwhere(ranks == dist.get_rank())
    return lines[1][column], lines[0][row]
