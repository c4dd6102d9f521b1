# kind: schedule_too_short
# culprits: -
# ranks: 2
# As accelerate's prepare() has it: a schedule that waits for a plateau is told each value once for each rank.
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
    loader = DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset))
    model = DDP(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = ReduceLROnPlateau(optimizer, patience=5)
    for epoch in range(6):
        loader.sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
        value = loss.detach()
        dist.all_reduce(value)
        for _ in range(dist.get_world_size()):
            schedule.step(value)
    dist.destroy_process_group()


main()
