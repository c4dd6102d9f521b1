# kind: different_roots
# culprits: -
# ranks: 4
# Pairs of ranks average in groups of their own; the broadcast after it names the pair's first rank, and no group.
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
pairs = [dist.new_group([first, first + 1]) for first in range(0, world, 2)]
mine, leader = pairs[rank // 2], rank // 2 * 2
for _ in range(3):
    x = torch.full((3,), float(rank))
    dist.all_reduce(x, group=mine)
    dist.broadcast(x, src=leader)
    #~ mended -1 |    dist.broadcast(x, src=leader, group=mine)
print(x.tolist())
dist.destroy_process_group()
