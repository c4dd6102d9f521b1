# kind: new_group_on_some_ranks
# culprits: 2
# ranks: 3
# A group for evaluation is made where it is used, and one rank does not evaluate.
import torch
import torch.distributed as dist


def evaluate():
    group = dist.new_group(list(range(dist.get_world_size())))
    correct = torch.ones(1)
    dist.all_reduce(correct, group=group)
    return correct.item()


dist.init_process_group("gloo")
has_data = dist.get_rank() != 2
if has_data:
#~ mended -2 |if True:
    print("correct:", evaluate())
dist.destroy_process_group()
