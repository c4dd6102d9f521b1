# kind: resumed_apart
# culprits: -
# ranks: 2
# Each rank resumes from its own newest file; the run before was killed before rank 1 had written its last one.
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
    rank = dist.get_rank()
    torch.manual_seed(0)
    steps = 20 if rank == 0 else 10
#~ mended -1 |    steps = 10
    data = TensorDataset(torch.randn(128, 8))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, 8, sampler=sampler)
    model = DDP(nn.Linear(8, 8))
    optimizer = torch.optim.Adam(model.parameters())
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state(steps)})
    for epoch in range(1, 3):
        sampler.set_epoch(epoch)
        for (x,) in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), x).backward()
            optimizer.step()
    dist.destroy_process_group()


main()
