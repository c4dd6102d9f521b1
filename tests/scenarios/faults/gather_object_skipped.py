# kind: different_collectives
# culprits: 1
# ranks: 3
# Ranks gather what they have found; one has found nothing and goes on to the barrier.
import torch.distributed as dist


def search(rank):
    return [] if rank == 1 else [f"match {rank}"]


dist.init_process_group("gloo")
found = search(dist.get_rank())
if found:
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, found)
dist.barrier()
dist.destroy_process_group()
