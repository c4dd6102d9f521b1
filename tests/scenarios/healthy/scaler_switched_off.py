# kind: none
# ranks: 2
# A trainer with a GradScaler that bfloat16 switches off: gradients carry no scale, and are clipped as they are.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
dtype = torch.bfloat16
scaler = torch.amp.GradScaler("cpu", enabled=dtype is torch.float16)
for _ in range(4):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=dtype):
        loss = model(torch.randn(8, 4)).square().mean()
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
dist.destroy_process_group()
