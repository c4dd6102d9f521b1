# kind: none
# ranks: 2
# Rank 0 alone finds a checkpoint and hands it to all; they skip the batches of its epoch that were trained on.
import itertools

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


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
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(128, 8))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, 8, sampler=sampler)
    model = nn.Linear(8, 8)
    optimizer = torch.optim.Adam(model.parameters())
    found = [{"state": state(11), "step": 11} if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(found)
    optimizer.load_state_dict({**optimizer.state_dict(), "state": found[0]["state"]})
    first, skipped = divmod(found[0]["step"], len(loader))
    model = DDP(model)
    for epoch in range(first, 3):
        sampler.set_epoch(epoch)
        for (x,) in itertools.islice(loader, skipped, None):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), x).backward()
            optimizer.step()
        skipped = 0
    dist.destroy_process_group()


main()
