# kind: extra_forward
# culprits: 1
# ranks: 3
# A rank whose loss looks odd calls the model once more to see whether it is so again.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def loss_of(batch, scale):
    return (scale * model(batch)).square().mean()


for step in range(5):
    batch, scale = torch.randn(8, 4), 1.0
    if dist.get_rank() == 1 and step == 1:
        scale = 1e6
    loss = loss_of(batch, scale)
    if loss > 1e6:
        loss = loss_of(batch, 1.0)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
