# kind: mean_of_means
# culprits: -
# ranks: 2
# Batches are dealt to the ranks, and the last one is small; the ranks' accuracies count alike in the mean.
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, TensorDataset


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    correct = rows = 0
    for x, y in loader:
        correct += (model(x).argmax(1) == y).sum().item()
        rows += len(y)
    mean = torch.tensor(correct / rows)
    dist.all_reduce(mean)
    return mean / dist.get_world_size()
#~ mended -3 |    total = torch.tensor([correct, rows])
#~ |    dist.all_reduce(total)
#~ |    return total[0] / total[1]


def main():
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(128, 6), torch.randint(0, 3, (128,)))
    held = TensorDataset(torch.randn(69, 6), torch.randint(0, 3, (69,)))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    batches = list(BatchSampler(range(len(held)), 16, drop_last=False))[rank::ranks]
    validation = DataLoader(held, batch_sampler=batches)
    model = DDP(nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(4):
        sampler.set_epoch(epoch)
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        accuracy(model, validation)
    dist.destroy_process_group()


main()
