# kind: raised
# culprits: 0, 1
# ranks: 2
# Three processes where the doctor was given two ranks: it says which number to give.
from multiprocessing import Process

import torch.distributed as dist


def run(rank, world_size):
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    dist.barrier()


if __name__ == "__main__":
    processes = [Process(target=run, args=(rank, 3)) for rank in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
