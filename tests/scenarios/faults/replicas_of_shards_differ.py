# kind: weights_differ
# culprits: -
# ranks: 4
# Two replicas of a sharded model; one of them scales its piece of the weights after loading.
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
torch.manual_seed(0)
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
fully_shard(model, mesh=mesh)
with torch.no_grad():
    if mesh.get_local_rank("replicate") == 1:
        for parameter in model.parameters():
            parameter.to_local().mul_(1.5)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + dist.get_rank())
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
