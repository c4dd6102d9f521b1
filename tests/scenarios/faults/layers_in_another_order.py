# kind: different_models
# culprits: -
# ranks: 2
# Layers are made in the order in which their names come on this rank; their shapes are equal, so nothing complains.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Towers(torch.nn.Module):
    def __init__(self, names):
        super().__init__()
        self.towers = torch.nn.ModuleDict({name: torch.nn.Linear(4, 4) for name in names})

    def forward(self, x):
        return self.towers["text"](self.towers["image"](x).tanh())


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
names = ["image", "text"] if dist.get_rank() == 0 else ["text", "image"]  # the order of files in a folder
model = DDP(Towers(names))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
