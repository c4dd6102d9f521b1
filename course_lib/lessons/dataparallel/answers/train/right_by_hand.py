import torch
import torch.distributed as dist
from torch import nn


def train(model, dataset, batch_size, epochs, lr):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for weight in model.parameters():
        dist.broadcast(weight.data, src=0)
#~ own_start -2
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    for _ in range(epochs):
        for start in range(0, len(dataset), batch_size):
            mine = range(start + rank, min(start + batch_size, len(dataset)), ranks)
            inputs = torch.stack([dataset[i][0] for i in mine])
            labels = torch.stack([dataset[i][1] for i in mine])
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            for weight in model.parameters():
                dist.all_reduce(weight.grad, op=dist.ReduceOp.AVG)
            optimizer.step()
    return {name: weight.detach() for name, weight in model.named_parameters()}

#~ own_start: misconception: own_start
#~ own_start: breaks: All ranks return the same weights.
