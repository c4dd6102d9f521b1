# kind: rank_exited
# culprits: 1
# ranks: 2
# One rank does not find its data and leaves with sys.exit(3).
import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
shards = {0: ["a.bin", "b.bin"]}
if dist.get_rank() not in shards:
    sys.exit(3)
total = torch.tensor([len(shards[dist.get_rank()])])
dist.all_reduce(total)
dist.destroy_process_group()
