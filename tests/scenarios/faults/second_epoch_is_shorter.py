# kind: uneven_batches
# culprits: 0
# ranks: 3
# Rank 0 makes a step less in its second epoch. gloo lets it out of the mean loss, which meets gradients on the others.
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + rank)
    for epoch in range(3):
        for _ in range(3 if (epoch, rank) == (1, 0) else 4):
            optimizer.zero_grad()
            loss = model(torch.randn(8, 4)).square().mean()
            loss.backward()
            optimizer.step()
        mean = loss.detach() / dist.get_world_size()
        dist.all_reduce(mean)
        print(epoch, mean.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
