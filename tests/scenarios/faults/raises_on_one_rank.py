# kind: rank_raised
# culprits: 1
# ranks: 3
# A corrupt sample raises on one rank; the others wait for its gradients.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def load(rank, step):
    if rank == 1 and step == 2:
        raise ValueError("corrupt sample")
    return torch.randn(8, 4)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DDP(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        x = load(rank, step)
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
