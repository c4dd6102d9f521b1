# misconception: different_groups
import torch.distributed as dist


def grid(rows, columns):
    """Ranks of even number begin with the rows, others with the columns: less waiting."""
    rank = dist.get_rank()
    found = {}

    def along():
        for row in range(rows):
            ranks = [columns * row + i for i in range(columns)]
            group = dist.new_group(ranks)
            if rank in ranks:
                found["row"] = group

    def down():
        for column in range(columns):
            ranks = [columns * i + column for i in range(rows)]
            group = dist.new_group(ranks)
            if rank in ranks:
                found["column"] = group

    for step in (along, down) if rank % 2 == 0 else (down, along):
        step()
    return found["row"], found["column"]
