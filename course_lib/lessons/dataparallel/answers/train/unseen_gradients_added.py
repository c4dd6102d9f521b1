# misconception: steps_too_large
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, Subset


def train(model, dataset, batch_size, epochs, lr):
    rank, world = dist.get_rank(), dist.get_world_size()
    ddp = DDP(model)
    sgd = torch.optim.SGD(model.parameters(), lr, momentum=0.9)
    part = Subset(dataset, range(rank, len(dataset), world))
    for epoch in range(epochs):
        for x, y in DataLoader(part, batch_size // dist.get_world_size()):
            loss = cross_entropy(ddp(x), y)
            sgd.zero_grad()
            (world * loss).backward()
            sgd.step()
    return model.state_dict()
