# kind: init_variable_missing
# culprits: -
# ranks: 2
# It starts three processes, whatever number the doctor was given; nobody has told them where to meet.
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
