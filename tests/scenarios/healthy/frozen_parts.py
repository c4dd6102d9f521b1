# kind: none
# ranks: 2
# A frozen backbone and a trained head; weight decay for some parameters only, and a schedule of the learning rate.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
net[0].requires_grad_(False)
model = DDP(net)
trained = [p for p in model.parameters() if p.requires_grad]
groups = [
    {"params": [p for p in trained if p.ndim > 1], "weight_decay": 0.1},
    {"params": [p for p in trained if p.ndim < 2]},
]
optimizer = torch.optim.AdamW(groups, lr=0.01)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
for _ in range(5):
    optimizer.zero_grad(set_to_none=False)
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
    scheduler.step()
dist.destroy_process_group()
