# kind: rank_only_collective
# culprits: 0
# ranks: 2
# The validating rank calls a helper that averages over all ranks; the others go on with the next epoch.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def averaged(value):
    dist.all_reduce(value)
    return value / dist.get_world_size()


def validate(model):
    with torch.no_grad():
        return averaged(model.module(torch.ones(4, 4)).square().mean())


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    data = TensorDataset(torch.randn(16, 4))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    model = DDP(torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tasks = ["validate"] if dist.get_rank() == 0 else []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for (x,) in loader:
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
        for task in tasks:
            print(task, validate(model).shape)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
