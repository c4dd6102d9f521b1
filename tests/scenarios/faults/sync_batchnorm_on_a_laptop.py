# kind: sync_batchnorm_on_cpu
# culprits: -
# ranks: 2
# The norms are converted, and there is no GPU.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
net = torch.nn.SyncBatchNorm.convert_sync_batchnorm(net)
#~ mended -1
model = DDP(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + dist.get_rank())
for _ in range(4):
    x = torch.randn(8, 4)
#~ mended -1 |    x = torch.randn(16, 4)
    optimizer.zero_grad()
    (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
