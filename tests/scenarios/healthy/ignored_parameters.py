# kind: none
# ranks: 2
# An embedding that each rank keeps for its own users is left out of DDP on purpose.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Recommender(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.users = torch.nn.Embedding(10, 4)
        self.tower = torch.nn.Linear(4, 1)

    def forward(self, users):
        return self.tower(self.users(users))


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
net = Recommender()
DDP._set_params_and_buffers_to_ignore_for_model(net, ["users.weight"])
model = DDP(net)
optimizer = torch.optim.SGD(model.module.tower.parameters(), lr=0.1)
local = torch.optim.SGD(net.users.parameters(), lr=0.1)
for _ in range(5):
    model(torch.randint(0, 10, (8,))).square().mean().backward()
    for each in (optimizer, local):
        each.step()
        each.zero_grad()
dist.destroy_process_group()
