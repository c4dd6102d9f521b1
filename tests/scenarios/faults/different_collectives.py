# kind: different_collectives
# culprits: 0
# ranks: 3
# The first rank broadcasts what the others try to add up.
import torch
import torch.distributed as dist


def share(value, chief):
    if chief:
        dist.broadcast(value, src=0)
        return value
#~ mended -2 |        pass
    dist.all_reduce(value)
    return value


dist.init_process_group("gloo")
share(torch.ones(4), chief=dist.get_rank() == 0)
dist.barrier()
dist.destroy_process_group()
