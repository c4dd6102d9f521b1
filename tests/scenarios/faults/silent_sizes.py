# kind: different_sizes
# culprits: -
# ranks: 2
# Sizes 2 and 3 meet in an all_reduce, and gloo says nothing.
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
counts = torch.ones(2 + dist.get_rank())
dist.all_reduce(counts)
print(counts.tolist())
dist.destroy_process_group()
