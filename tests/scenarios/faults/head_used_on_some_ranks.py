# kind: unused_parameters
# culprits: 1
# ranks: 2
# Rank 1's batches have no labels for the second head.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class TwoHeads(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(4, 4)
        self.labels = torch.nn.Linear(4, 1)
        self.masks = torch.nn.Linear(4, 2)

    def forward(self, x, with_masks):
        hidden = self.body(x).relu()
        loss = self.labels(hidden).square().mean()
        return loss + self.masks(hidden).square().mean() if with_masks else loss


dist.init_process_group("gloo")
rank = dist.get_rank()
model = DDP(TwoHeads())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(8, 4), rank == 0).backward()
    optimizer.step()
dist.destroy_process_group()
