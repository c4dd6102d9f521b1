# kind: none
# ranks: 2
# timeout: 180
# args: --port {free_port}
# A tutorial with two demonstrations that meet at the same port, one after the other.
import argparse
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP


def setup(rank, world_size, port):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = port
    dist.init_process_group("gloo", rank=rank, world_size=world_size)


def basic(rank, world_size, port):
    setup(rank, world_size, port)
    model = DDP(torch.nn.Linear(4, 2))
    model(torch.randn(8, 4)).sum().backward()
    dist.destroy_process_group()


def two_layers(rank, world_size, port):
    setup(rank, world_size, port)
    model = DDP(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)))
    model(torch.randn(8, 4)).sum().backward()
    dist.barrier()
    dist.destroy_process_group()


def run_demo(demo, world_size, port):
    mp.spawn(demo, args=(world_size, port), nprocs=world_size, join=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port")
    options = parser.parse_args()
    for demo in (basic, two_layers):
        run_demo(demo, 2, options.port)
