# kind: none
# ranks: 2
# timeout: 180
# A process for each rank, a port that the parent has chosen, and a queue in which it collects what they found.
import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP


def train(rank, world_size, port, results):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world_size)
    torch.manual_seed(rank)
    model = DDP(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
    results.put((rank, os.environ.get("RANK"), model.module.bias.item()))
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.set_start_method("forkserver")
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    for _ in range(2):  # once more, in ranks of their own
        results = mp.Queue()
        processes = [mp.Process(target=train, args=(rank, 2, port, results)) for rank in range(2)]
        for process in processes:
            process.start()
        found = [results.get() for _ in processes]
        for process in processes:
            process.join()
        assert all(process.exitcode == 0 for process in processes)
        assert sorted(rank for rank, _, _ in found) == [0, 1]
        assert {(environment, bias) for _, environment, bias in found} == {(None, found[0][2])}
