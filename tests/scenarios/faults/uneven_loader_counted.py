# kind: uneven_batches
# culprits: 1
# ranks: 2
# The loop takes as many batches as each rank's loader has, and never asks for one more; rank 1's has fewer.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
rows = 40 - 8 * rank
loader = DataLoader(TensorDataset(torch.randn(rows, 4), torch.randn(rows, 1)), batch_size=8)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    batches = iter(loader)
    for _ in range(len(loader)):
#~ mended -1 |    for _ in range(4):
        x, y = next(batches)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
dist.destroy_process_group()
