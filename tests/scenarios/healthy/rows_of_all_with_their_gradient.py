# kind: none
# ranks: 2
# Rows of all ranks, with this rank's own put back; the loss is gathered for the log, and a head is for later.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Embedding(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(6, 8)
        self.later = torch.nn.Linear(8, 100)

    def forward(self, x):
        return self.body(x)


dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
model = DDP(Embedding(), find_unused_parameters=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    rows = model(torch.randn(4, 6))
    gathered = [torch.empty_like(rows) for _ in range(size)]
    dist.all_gather(gathered, rows)
    gathered[rank] = rows
    everything = torch.cat(gathered)
    loss = (everything @ everything.T - torch.eye(len(everything))).square().mean() * size
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses = [torch.empty(()) for _ in range(size)]
    dist.all_gather(losses, loss)
    print("mean loss", torch.stack(losses).mean().isfinite().item())
dist.destroy_process_group()
