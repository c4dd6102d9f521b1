# kind: none
# ranks: 3
# A model with BatchNorm is evaluated on rank 0 through .module after every epoch, and trained on.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def evaluate(module, batches=2):
    module.eval()
    with torch.inference_mode():
        loss = sum(module(torch.randn(8, 4)).square().mean().item() for _ in range(batches))
    module.train()
    return loss / batches


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
    if rank == 0:
        print(f"epoch {epoch}: {evaluate(model.module):.2f}")
dist.destroy_process_group()
