# kind: left_behind_by_spawn
# culprits: -
# ranks: 3
# timeout: 100
# Settings are read where the script is started, and used in ranks that are spawned.
import argparse
import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank, size):
#~ mended -1 |settings = argparse.Namespace(width=4)
#~ |
#~ |
#~ |def work(rank, size):
    dist.init_process_group("gloo", rank=rank, world_size=size)
    total = torch.ones(settings.width)
    dist.all_reduce(total)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=4)
    settings = parser.parse_args()
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        os.environ["MASTER_PORT"] = str(free.getsockname()[1])
    context = mp.get_context("spawn")
    ranks = [context.Process(target=work, args=(rank, 3)) for rank in range(3)]
    for each in ranks:
        each.start()
    for each in ranks:
        each.join()
