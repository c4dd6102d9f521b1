# kind: modes_differ
# culprits: 0
# ranks: 3
# Rank 0 looks at the validation rows in evaluation mode, and does not switch back.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(0)
net = torch.nn.Sequential(
    torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(16, 1)
)
model = DDP(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
validation = torch.randn(12, 4)
torch.manual_seed(1 + dist.get_rank())
for step in range(12):
    x = torch.randn(8, 4)
    optimizer.zero_grad()
    (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
    optimizer.step()
    if step % 4 == 3 and dist.get_rank() == 0:
        model.eval()
        with torch.no_grad():
            print(f"validation {model.module(validation).mean():.3f}")
#~ mended -1 |            print(f"validation {model.module(validation).mean():.3f}")
#~ |        model.train()
dist.destroy_process_group()
