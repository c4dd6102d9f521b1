# kind: optimizer_differs
# culprits: -
# ranks: 2
# ReduceLROnPlateau is stepped with each rank's own validation loss.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1, factor=0.1)
    torch.manual_seed(1 + rank)
    for epoch in range(10):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
        validation_loss = 1.0 / (1 + epoch) if rank == 0 else 1.0
        scheduler.step(validation_loss)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
