# kind: none
# ranks: 2
# The older FullyShardedDataParallel: the parameters in the optimizer are pieces of a flat one.
import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

dist.init_process_group("gloo")
torch.manual_seed(0)
inner = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2))
model = FSDP(inner, device_id=torch.device("cpu"), use_orig_params=True)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
torch.manual_seed(1 + dist.get_rank())
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
