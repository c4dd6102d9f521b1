import torch.distributed as dist


def grid(rows, columns):
    me = dist.get_rank()
#~ own_first -0 |    lines = [[r * columns + c for c in range(columns)] for r in range(rows)]
#~ |    lines += [[r * columns + c for r in range(rows)] for c in range(columns)]
    mine = []
    lines = [
        [list(range(row * columns, (row + 1) * columns)) for row in range(rows)],
        [list(range(column, rows * columns, columns)) for column in range(columns)],
#~ counted_down -2 |        [list(range(row, rows * columns, rows)) for row in range(rows)],
#~ |        [list(range(column * rows, (column + 1) * rows)) for column in range(columns)],
    ]
    for direction in lines:
        for ranks in direction:
            group = dist.new_group(ranks)
            if me in ranks:
                mine.append(group)
#~ own_first -9 |    for ranks in sorted(lines, key=lambda ranks: me not in ranks):
#~ |        group = dist.new_group(ranks)
#~ |        if me in ranks:
#~ |            mine.append(group)
    return mine
#~ everyone -12 |    return dist.new_group(), dist.group.WORLD

#~ counted_down: misconception: transposed
#~ counted_down: breaks: The first holds the ranks of its row, the second those of its column.
#~ everyone: misconception: everyone
#~ everyone: breaks: The first holds the ranks of its row, the second those of its column.
#~ own_first: misconception: different_groups
#~ own_first: breaks: All ranks make the same groups in the same order.
