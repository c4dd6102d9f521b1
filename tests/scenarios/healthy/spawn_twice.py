# kind: none
# ranks: 2
# timeout: 180
# A tutorial with two demonstrations, each in ranks of its own; the address is the parent's, the ranks inherit it.
import os
import socket
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP


def basic(rank, world_size, folder):
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    model = DDP(torch.nn.Linear(4, 2))
    model(torch.randn(8, 4)).sum().backward()
    dist.destroy_process_group()


def checkpoint(rank, world_size, folder):
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    model = DDP(torch.nn.Linear(4, 2))
    path = os.path.join(folder, "model.pt")
    if rank == 0:
        torch.save(model.state_dict(), path)
    dist.barrier()
    model.load_state_dict(torch.load(path, weights_only=True))
    model(torch.randn(8, 4)).sum().backward()
    # It ends without destroying its group: the process ends.


def run(demonstration, folder):
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(sock.getsockname()[1]))
    mp.spawn(demonstration, args=(2, folder), nprocs=2)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for demonstration in (basic, checkpoint):
            run(demonstration, folder)
