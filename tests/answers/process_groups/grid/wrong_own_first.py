# misconception: different_groups
# breaks: All ranks make the same groups in the same order.
import torch.distributed as dist


def grid(rows, columns):
    me = dist.get_rank()
    lines = [[r * columns + c for c in range(columns)] for r in range(rows)]
    lines += [[r * columns + c for r in range(rows)] for c in range(columns)]
    mine = []
    for ranks in sorted(lines, key=lambda ranks: me not in ranks):
        group = dist.new_group(ranks)
        if me in ranks:
            mine.append(group)
    return mine
