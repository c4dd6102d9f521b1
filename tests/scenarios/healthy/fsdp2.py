# kind: none
# ranks: 2
# fully_shard (FSDP2): every parameter is a DTensor, each rank has one piece of it; some pieces are of unequal size.
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
torch.manual_seed(0)
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.LayerNorm(7), torch.nn.Linear(7, 1))
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
torch.manual_seed(1 + dist.get_rank())
for _ in range(4):
    model(torch.randn(8, 5)).square().mean().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
print("trained", min(model.state_dict()))
dist.destroy_process_group()
