# kind: none
# ranks: 2
# After its only epoch a script looks at the rows that it has trained on, by the same loader: in the same order.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
torch.manual_seed(0)
data = TensorDataset(torch.randn(48, 4), torch.randn(48, 1))
loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
model.eval()
total = torch.zeros(2)
with torch.no_grad():
    for x, y in loader:
        total += torch.tensor([(model.module(x) - y).square().sum(), len(y)])
dist.all_reduce(total)
dist.destroy_process_group()
