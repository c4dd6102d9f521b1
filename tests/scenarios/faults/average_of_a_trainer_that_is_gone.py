# kind: copies_differ
# culprits: 0
# ranks: 2
# All ranks evaluate the average that rank 0 alone updates; the trainer that holds it is freed before the end.
import copy

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Trainer:
    def __init__(self):
        net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        self.model = DDP(net)
        self.average = copy.deepcopy(net)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        rows = TensorDataset(torch.linspace(-1, 1, 512).reshape(128, 4))
        self.sampler = DistributedSampler(rows)
        self.train, self.held = DataLoader(rows, 8, sampler=self.sampler), TensorDataset(torch.rand(32, 4))

    def fit(self):
        for epoch in range(2):
            self.sampler.set_epoch(epoch)
            for (x,) in self.train:
                self.optimizer.zero_grad()
                self.model(x).square().mean().backward()
                self.optimizer.step()
                if dist.get_rank() == 0:
#~ mended -1 |                if True:
                    self.update()
            self.validate()

    @torch.no_grad()
    def update(self):
        for old, new in zip(self.average.parameters(), self.model.module.parameters(), strict=True):
            old.lerp_(new, 0.1)

    @torch.no_grad()
    def validate(self):
        loss = torch.zeros(())
        for (x,) in DataLoader(self.held, 8, sampler=DistributedSampler(self.held, shuffle=False)):
            loss += self.average(x).square().sum()
        dist.all_reduce(loss)


dist.init_process_group("gloo")
torch.manual_seed(0)
Trainer().fit()
dist.destroy_process_group()
