# kind: new_group_on_some_ranks
# culprits: 2
# ranks: 3
# A pair makes a group that the third rank does not make; groups are counted, so that the next one does not fit.
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
if rank in (0, 1):
    pair = dist.new_group([0, 1])
    dist.all_reduce(torch.ones(1), group=pair)
everyone = dist.new_group([0, 1, 2])
dist.all_reduce(torch.ones(1), group=everyone)
dist.destroy_process_group()
