# kind: none
# ranks: 2
# Every rank freezes the norm after four steps; rank 0 evaluates, and puts back the mode of each part.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(0)
net = torch.nn.Sequential(
    torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 1)
)
model = DDP(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
validation = torch.randn(12, 4)
torch.manual_seed(1 + dist.get_rank())
for step in range(12):
    if step == 4:
        net[1].eval()
    x = torch.randn(8, 4)
    optimizer.zero_grad()
    (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
    optimizer.step()
    if step % 4 == 3 and dist.get_rank() == 0:
        modes = [(part, part.training) for part in net.modules()]
        net.eval()
        with torch.no_grad():
            print(f"validation {net(validation).mean():.3f}")
        for part, mode in modes:
            part.training = mode
dist.destroy_process_group()
