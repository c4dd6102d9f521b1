# kind: nobody_answers
# culprits: 0
# ranks: 2
# One process for each rank, and nobody sends what rank 1 waits for.
import os
import socket
from multiprocessing import Process

import torch
import torch.distributed as dist


def run(rank, size):
    tensor = torch.zeros(1)
    if rank == 0:
        tensor += 1
    else:
        dist.recv(tensor, src=0)
    print("rank", rank, "has", tensor[0])


def init_process(rank, size, fn, backend="gloo"):
    dist.init_process_group(backend, rank=rank, world_size=size)
    fn(rank, size)


if __name__ == "__main__":
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        os.environ["MASTER_PORT"] = str(sock.getsockname()[1])
    processes = []
    for rank in range(2):
        p = Process(target=init_process, args=(rank, 2, run))
        p.start()
        processes.append(p)
    for p in processes:
        p.join()
