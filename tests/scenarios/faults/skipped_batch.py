# kind: missing_forward
# culprits: 0
# ranks: 2
# Batches without a label of interest are skipped; rank 0 has one of them.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset


def batches(rank):
    labels = torch.ones(20)
    if rank == 0:
        labels[4:8] = 0
    return DataLoader(TensorDataset(torch.randn(20, 3), labels), batch_size=4)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = DDP(torch.nn.Linear(3, 1))
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in batches(rank):
        if not y.any():
            continue
        loss = ((model(x).squeeze(1) - y) ** 2).mean()
#~ mended -3 |        loss = ((model(x).squeeze(1) - y) ** 2).mean() * (1 if y.any() else 0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
