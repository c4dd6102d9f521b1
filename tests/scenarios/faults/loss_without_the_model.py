# kind: missing_backward
# culprits: 1
# ranks: 2
# In one step a rank's loss hangs on no parameter of the model: its backward pass averages nothing, without an error.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
rank = dist.get_rank()
data = TensorDataset(torch.linspace(0, 1, 80).reshape(80, 1))
model = DDP(torch.nn.Linear(1, 1))
prior = torch.zeros(1, requires_grad=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step, (x,) in enumerate(DataLoader(data, 4, sampler=DistributedSampler(data, shuffle=False))):
    error = (model(x) - x).square()
    loss = error.mean() if rank == 0 or step != 4 else prior.square().sum()
#~ mended -1 |    loss = error.mean() if rank == 0 or step != 4 else prior.square().sum() + 0 * error.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
