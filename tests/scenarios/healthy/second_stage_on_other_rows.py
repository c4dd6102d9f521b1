# kind: none
# ranks: 2
# A second stage goes on with the optimizer of the first one, which rank 0 sends, on other rows: from epoch 0 on.
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
    rows = torch.randn(128, 8)
    model = DDP(nn.Linear(8, 8))
    optimizer = torch.optim.Adam(model.parameters())
    # What rank 0 would have read from a file, and what the others have in its place.
    loaded = state(37 if dist.get_rank() == 0 else 0)
    optimizer.load_state_dict({**optimizer.state_dict(), "state": loaded})
    for values in optimizer.state.values():
        for value in values.values():
            dist.broadcast(value, 0)
    sampler = DistributedSampler(rows)
    loader = DataLoader(TensorDataset(rows), 8, sampler=sampler)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for (x,) in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), x).backward()
            optimizer.step()
    dist.destroy_process_group()


main()
