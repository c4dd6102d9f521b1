# kind: extra_forward
# culprits: 0
# ranks: 3
# Rank 0 prints the shape of the output before training; with BatchNorm that forward is a collective.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    net = torch.nn.Sequential(torch.nn.Conv1d(1, 4, 3), torch.nn.BatchNorm1d(4), torch.nn.Flatten())
    model = DDP(net)
    if dist.get_rank() == 0:
        print(model(torch.randn(2, 1, 8)).shape)
#~ mended -1 |        print(model.module(torch.randn(2, 1, 8)).shape)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 1, 8)).square().mean()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
