# kind: none
# ranks: 2
# Every rank reads a file of its own from beginning to end, and calls the model with names, as many libraries do.
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset


class Part(Dataset):
    """The rows of one file."""

    def __init__(self, rank):
        self.rows = torch.randn(40, 6, generator=torch.Generator().manual_seed(rank))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return {"inputs": self.rows[index], "labels": self.rows[index].sum()}


class Regression(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 1)

    def forward(self, inputs, labels):
        return {"loss": (self.layer(inputs)[:, 0] - labels).square().mean()}


def train():
    torch.manual_seed(0)
    model = DDP(Regression())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(2):
        for batch in DataLoader(Part(dist.get_rank()), 8):
            optimizer.zero_grad()
            model(**batch)["loss"].backward()
            optimizer.step()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    train()
    dist.destroy_process_group()
