# kind: uneven_batches
# culprits: 1
# ranks: 2
# start: spawn
# One rank's loader is shorter: its training loop ends a step earlier.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
samples = 40 if rank == 0 else 32
loader = DataLoader(TensorDataset(torch.randn(samples, 4), torch.randn(samples, 1)), batch_size=8)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
dist.destroy_process_group()
