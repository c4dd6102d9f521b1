# kind: rank_left
# culprits: 0
# ranks: 2
# The same way of starting; rank 0 returns after its last file while the other one waits.
import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def run(rank, world_size):
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    for _ in range(3 + rank):
        dist.all_reduce(torch.ones(2))


def main():
    os.environ["MASTER_ADDR"] = "localhost"
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        os.environ["MASTER_PORT"] = str(sock.getsockname()[1])
    mp.spawn(run, args=(2,), nprocs=2, join=True)


if __name__ == "__main__":
    main()
