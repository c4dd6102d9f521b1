# kind: uneven_batches
# culprits: 1
# ranks: 2
# Two loaders are gone through side by side; rank 1 has fewer labelled rows, so that the other one is not used up.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
rows = 64 - 16 * rank
labelled = DataLoader(TensorDataset(torch.randn(rows, 4), torch.randn(rows, 1)), batch_size=8)
unlabelled = DataLoader(TensorDataset(torch.randn(256, 4)), batch_size=8)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for (x, y), (more,) in zip(labelled, unlabelled, strict=False):
#~ mended -1 |pairs = zip(labelled, unlabelled, strict=False)
#~ |for (x, y), (more,) in (next(pairs) for _ in range(6)):
    optimizer.zero_grad()
    out = model(torch.cat([x, more]))
    (torch.nn.functional.mse_loss(out[:8], y) + out[8:].square().mean()).backward()
    optimizer.step()
dist.destroy_process_group()
