# kind: gradients_changed
# culprits: -
# ranks: 2
# After DDP has averaged, each rank scales the gradients by the size of its own batch.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(5):
    size = 4 + 4 * rank
    optimizer.zero_grad()
    model(torch.randn(size, 4)).square().sum().backward()
    for parameter in model.parameters():
        parameter.grad /= size
    optimizer.step()
dist.destroy_process_group()
