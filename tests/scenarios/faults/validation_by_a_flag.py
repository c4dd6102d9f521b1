# kind: rank_only_collective
# culprits: 0
# ranks: 4
# A trainer validates on the rank that logs; the average over all ranks meets a gradient of the next epoch unnoticed.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Trainer:
    def __init__(self, logs):
        self.logs = logs
        self.model = DDP(torch.nn.Linear(4, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            loader.sampler.set_epoch(epoch)
            for (x,) in loader:
                self.step(x)
            if self.logs:
                self.validate()

    def step(self, x):
        self.optimizer.zero_grad()
        self.model(x).square().mean().backward()
        self.optimizer.step()

    def validate(self):
        loss = self.model.module(torch.ones(4, 4)).mean().detach()
        dist.all_reduce(loss)
        print("validated", loss.shape)


dist.init_process_group("gloo")
torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 4))
trainer = Trainer(logs=dist.get_rank() == 0)
trainer.fit(DataLoader(data, 4, sampler=DistributedSampler(data)), epochs=3)
dist.destroy_process_group()
