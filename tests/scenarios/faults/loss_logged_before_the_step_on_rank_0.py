# kind: rank_only_collective
# culprits: 0
# ranks: 3
# `if is_main_process():` around a reduce of the metrics.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def is_main_process():
    return dist.get_rank() == 0


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    model = DDP(torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(6):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 4)).square().mean()
        loss.backward()
        optimizer.step()
        if is_main_process() and step % 2 == 1:
            metrics = torch.stack([loss.detach(), torch.tensor(1.0)])
            dist.reduce(metrics, dst=0)
            print(step, metrics.shape)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
