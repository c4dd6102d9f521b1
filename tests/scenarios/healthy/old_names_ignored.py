# kind: none
# ranks: 2
# An old checkpoint is read for what it may have in common with a new model: nothing, whatever is put before a name.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
old = {
    "encoder.weight": torch.randn(8, 4),
    "encoder.bias": torch.randn(8),
    "decoder.weight": torch.randn(4, 8),
}
fits = net.load_state_dict(old, strict=False)
print(f"{len(fits.missing_keys)} parameters begin anew")
model = DDP(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
