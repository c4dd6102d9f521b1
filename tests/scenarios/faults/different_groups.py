# kind: different_groups
# culprits: -
# ranks: 2
# Two groups of the same ranks: each rank takes another one.
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
data_group = dist.new_group([0, 1])
model_group = dist.new_group([0, 1])
mine = (data_group, model_group)[dist.get_rank()]
#~ mended -1 |mine = data_group
dist.all_reduce(torch.ones(3), group=mine)
dist.destroy_process_group()
