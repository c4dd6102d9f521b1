# kind: none
# ranks: 2
# One scaler, two optimizers: the gradients of one are unscaled and clipped, those of the other are not clipped at all.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
body, head = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)
model = DDP(torch.nn.Sequential(body, torch.nn.ReLU(), head))
slow, fast = torch.optim.SGD(body.parameters(), lr=0.01), torch.optim.Adam(head.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for _ in range(4):
    slow.zero_grad()
    fast.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(torch.randn(8, 4)).square().mean()
    scaler.scale(loss).backward()
    scaler.unscale_(slow)
    torch.nn.utils.clip_grad_norm_(body.parameters(), 1.0)
    scaler.step(fast)
    scaler.step(slow)
    scaler.update()
dist.destroy_process_group()
