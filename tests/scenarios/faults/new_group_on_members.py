# kind: new_group_on_some_ranks
# culprits: 2
# ranks: 3
# Only the members of a group create it.
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
if dist.get_rank() in (0, 1):
    pair = dist.new_group([0, 1])
    dist.all_reduce(torch.ones(1), group=pair)
dist.barrier()
dist.destroy_process_group()
