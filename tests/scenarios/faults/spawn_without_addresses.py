# kind: init_variable_missing
# culprits: -
# The processes are started by spawn, and look in the environment for what only torchrun sets there.
# ranks: 2
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank):
    dist.init_process_group("gloo")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
