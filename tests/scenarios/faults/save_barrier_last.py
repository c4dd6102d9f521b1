# kind: rank_only_collective
# culprits: 0
# ranks: 2
# A helper that saves ends with a barrier, and only the main process calls it.
import io

import torch
import torch.distributed as dist


def save_checkpoint(state):
    torch.save(state, io.BytesIO())
    dist.barrier()


dist.init_process_group("gloo")
rank = dist.get_rank()
loss = torch.ones(1)
dist.all_reduce(loss)
if rank == 0:
    save_checkpoint({"loss": loss})
dist.destroy_process_group()
