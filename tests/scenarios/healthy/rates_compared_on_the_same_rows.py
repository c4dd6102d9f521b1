# kind: none
# ranks: 2
# Three learning rates are compared: each trains a model of its own for one epoch, on the same rows in the same order.
import numpy
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset


class Batches:
    def __init__(self, rows, size, epoch):
        self.rows, self.size, self.epoch = rows, size, epoch

    def __iter__(self):
        order = numpy.random.default_rng(self.epoch).permutation(self.rows)
        mine = order[dist.get_rank() :: dist.get_world_size()]
        return (mine[first : first + self.size].tolist() for first in range(0, len(mine), self.size))


def one_epoch(model, optimizer, dataset, epoch):
    for x, y in DataLoader(dataset, batch_sampler=Batches(len(dataset), 8, epoch)):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(96, 4), torch.randn(96, 1))
    for rate in (0.01, 0.1, 0.3):
        torch.manual_seed(1)
        model = DDP(nn.Linear(4, 1))
        one_epoch(model, torch.optim.SGD(model.parameters(), lr=rate), dataset, epoch=0)
    dist.destroy_process_group()


main()
