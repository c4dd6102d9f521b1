# kind: none
# ranks: 4
# A row group and a column group for every rank, all made on every rank.
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
groups = {ranks: dist.new_group(list(ranks)) for ranks in ((0, 1), (2, 3), (0, 2), (1, 3))}
for _ in range(3):
    for ranks, group in groups.items():
        if rank in ranks:
            dist.all_reduce(torch.ones(2 + min(ranks)), group=group)
dist.barrier()
dist.destroy_process_group()
