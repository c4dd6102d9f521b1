# kind: none
# ranks: 2
# Every rank has as many processes beside it as there are ranks; they write its log and are no ranks.
import os
import tempfile
from multiprocessing import Process, Queue

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def write_log(number, lines, path):
    with open(path, "w") as file:
        while (line := lines.get()) is not None:
            file.write(f"{number} {line}\n")


def main(folder):
    lines, paths = [Queue(), Queue()], [os.path.join(folder, f"log{number}") for number in range(2)]
    writers = [Process(target=write_log, args=(number, lines[number], paths[number])) for number in range(2)]
    for writer in writers:
        writer.start()
    dist.init_process_group("gloo")
    model = DDP(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
        for each in lines:
            each.put(f"step {step}")
    dist.destroy_process_group()
    for number, writer in enumerate(writers):
        lines[number].put(None)
        writer.join()
        assert writer.exitcode == 0
        with open(paths[number]) as file:
            assert file.read() == "".join(f"{number} step {step}\n" for step in range(3))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
