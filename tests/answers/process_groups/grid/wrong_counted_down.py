# misconception: transposed
# breaks: Ranks are counted along the rows.
# breaks: The first holds the ranks of its row, the second those of its column.
import torch.distributed as dist


def grid(rows, columns):
    me = dist.get_rank()
    mine = []
    lines = [
        [list(range(row, rows * columns, rows)) for row in range(rows)],
        [list(range(column * rows, (column + 1) * rows)) for column in range(columns)],
    ]
    for direction in lines:
        for ranks in direction:
            group = dist.new_group(ranks)
            if me in ranks:
                mine.append(group)
    return mine
