# kind: init_variable_missing
# culprits: -
# The processes are started by spawn, and look in the environment for what only torchrun sets there.
# ranks: 2
# args: {free_port}
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank):
    dist.init_process_group("gloo")
#~ mended -1 |    import sys
#~ |
#~ |    address = f"tcp://127.0.0.1:{sys.argv[-1]}"
#~ |    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
