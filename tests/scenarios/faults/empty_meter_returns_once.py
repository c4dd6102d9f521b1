# kind: skipped_collective
# culprits: 1
# ranks: 3
# A meter with nothing in it returns before its all_reduce: on rank 1 in the second epoch.
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Meter:
    def __init__(self):
        self.total, self.n = 0.0, 0

    def add(self, value):
        self.total += value
        self.n += 1

    def mean(self):
        if self.n == 0:
            return None
        sums = torch.tensor([self.total, float(self.n)])
        dist.all_reduce(sums)
        return (sums[0] / sums[1]).item()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + rank)
    for epoch in range(3):
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
        found = Meter()
        for confidence in torch.linspace(0.0, 1.0, 5) - float((epoch, rank) == (1, 1)):
            if confidence > 0.5:
                found.add(confidence.item())
        print(epoch, found.mean())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
