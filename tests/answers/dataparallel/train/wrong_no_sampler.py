# misconception: everyone_does_everything
# breaks: The ranks share the work: each sample goes through one rank in an epoch.
# breaks: The ranks share the work.
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler


def train(model, dataset, batch_size, epochs, lr):
    ddp = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=lr, momentum=0.9)
    loader = DataLoader(dataset, batch_size=batch_size)
    for epoch in range(epochs):
        for inputs, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(ddp(inputs), labels).backward()
            optimizer.step()
    return ddp.module.state_dict()
