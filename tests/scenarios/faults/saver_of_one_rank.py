# kind: rank_only_collective
# culprits: 0
# ranks: 2
# The saver was told on rank 0 alone that it is to save, and gathers something from all ranks.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Saver:
    def __init__(self, active):
        self.active = active

    def save(self):
        if self.active:
            states = [None] * dist.get_world_size()
            dist.all_gather_object(states, torch.get_rng_state().sum().item())


dist.init_process_group("gloo")
torch.manual_seed(0)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
saver = Saver(active=dist.get_rank() == 0)
for _epoch in range(2):
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
    saver.save()
dist.destroy_process_group()
