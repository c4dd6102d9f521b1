# kind: none
# ranks: 4
# Two pipeline stages, two replicas of each: DDP averages each stage over its own two ranks.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
stages = [dist.new_group([0, 1]), dist.new_group([2, 3])]
stage = rank // 2
model = DDP(torch.nn.Linear(4, 4), process_group=stages[stage])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    optimizer.zero_grad()
    if stage == 0:
        out = model(torch.randn(8, 4))
        dist.send(out.detach(), dst=rank + 2)
        gradient = torch.empty(8, 4)
        dist.recv(gradient, src=rank + 2)
        out.backward(gradient)
    else:
        received = torch.empty(8, 4)
        dist.recv(received, src=rank - 2)
        received.requires_grad_()
        model(received).square().mean().backward()
        dist.send(received.grad, dst=rank - 2)
    optimizer.step()
dist.destroy_process_group()
