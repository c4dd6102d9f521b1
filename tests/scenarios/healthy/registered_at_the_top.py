# kind: none
# ranks: 2
# timeout: 100
# A data set is registered at the top level, where spawned ranks find it, too.
import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP


class Catalog:
    def __init__(self):
        self._makers = {}

    def register(self, name, make):
        self._makers[name] = make

    def get(self, name):
        if name not in self._makers:
            raise KeyError(f"no data set {name!r}; there are {sorted(self._makers)}")
        return self._makers[name]()


CATALOG = Catalog()


def boats():
    return torch.randn(32, 8, generator=torch.Generator().manual_seed(0))


CATALOG.register("boats", boats)


def train(rank, size, name):
    dist.init_process_group("gloo", rank=rank, world_size=size)
    rows = CATALOG.get(name)[rank::size]
    torch.manual_seed(0)
    model = DDP(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in rows.split(4):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        os.environ["MASTER_PORT"] = str(free.getsockname()[1])
    mp.spawn(train, args=(2, "boats"), nprocs=2)
