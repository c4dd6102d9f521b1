# kind: none
# ranks: 2
# A trainer class goes on until its patience is used up, which happens to be at half of the schedule.
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Trainer:
    def __init__(self, model, loader, epochs):
        self.model, self.loader, self.epochs = model, loader, epochs
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.schedule = OneCycleLR(self.optimizer, max_lr=0.1, total_steps=epochs * len(loader))
        self.epoch, self.patience = 0, 2

    def fit(self):
        while self.patience and self.epoch < self.epochs:
            self.loader.sampler.set_epoch(self.epoch)
            for batch in self.loader:
                self.step(*batch)
            self.patience -= 1
            self.epoch += 1

    def step(self, x, y):
        self.optimizer.zero_grad()
        nn.functional.mse_loss(self.model(x), y).backward()
        self.optimizer.step()
        self.schedule.step()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
    loader = DataLoader(dataset, batch_size=4, sampler=DistributedSampler(dataset))
    Trainer(DDP(nn.Linear(4, 1)), loader, epochs=4).fit()
    dist.destroy_process_group()


main()
