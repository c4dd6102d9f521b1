# kind: none
# ranks: 3
# Metrics are reduced in a loop over a dictionary; in some steps all ranks have more of them.
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def train():
    torch.manual_seed(0)
    model = DDP(nn.Linear(5, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + dist.get_rank())
    for step in range(9):
        loss = model(torch.randn(16, 5)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        metrics = {"loss": loss.detach(), "one": torch.ones(())}
        if step % 4 == 3:
            metrics["bias"] = model.module.bias.detach().clone()
        for value in metrics.values():
            dist.all_reduce(value)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    train()
    dist.destroy_process_group()
