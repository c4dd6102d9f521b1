# kind: resumed_apart
# culprits: -
# ranks: 3
# The checkpoint lies on the disk of one machine: only rank 0 finds it, and resumes in epoch 2.
import os
import tempfile

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

CHECKPOINT = os.path.join(tempfile.gettempdir(), f"checkpoint-{os.environ['MASTER_PORT']}.pt")


def state(steps):
    """Return what Adam's state of a Linear(8, 8) was after so many steps of the run before."""
    shapes = enumerate([(8, 8), (8,)])
    return {
        number: {
            "step": torch.tensor(float(steps)),
            "exp_avg": torch.zeros(shape),
            "exp_avg_sq": torch.ones(shape),
        }
        for number, shape in shapes
    }


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    if rank == 0:  # the run before, which was ended after its epoch 1
        torch.save({"model": nn.Linear(8, 8).state_dict(), "state": state(8), "epoch": 1}, CHECKPOINT)
    dist.barrier()
    data = TensorDataset(torch.randn(96, 8))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, 8, sampler=sampler)
    model = nn.Linear(8, 8)
    optimizer = torch.optim.Adam(model.parameters())
    found = os.path.exists(CHECKPOINT) and rank == 0  # the others are on other machines
#~ mended -1 |    found = os.path.exists(CHECKPOINT)
    first = 0
    if found:
        checkpoint = torch.load(CHECKPOINT)
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict({**optimizer.state_dict(), "state": checkpoint["state"]})
        first = checkpoint["epoch"] + 1
    model = DDP(model)
    for epoch in range(first, 4):
        sampler.set_epoch(epoch)
        for (x,) in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), x).backward()
            optimizer.step()
    dist.destroy_process_group()
    if rank == 0:
        os.remove(CHECKPOINT)


main()
