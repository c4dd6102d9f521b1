# kind: different_sizes
# culprits: -
# ranks: 2
# Statistics of tasks are reduced by name, and the names come in an order of each rank's own, as those of a set do.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

TASKS = {"depth": 1, "edges": 2, "normals": 3}


class Statistics:
    def __init__(self, names):
        self.names = list(names)
        self.means = {name: torch.zeros(TASKS[name]) for name in self.names}

    def reduce(self):
        for name in self.names:
#~ mended -1 |        for name in sorted(self.names):
            dist.all_reduce(self.means[name])
        return self.means


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(torch.nn.Linear(4, 1))
model(torch.randn(8, 4)).square().mean().backward()
Statistics(sorted(TASKS, reverse=dist.get_rank() == 1)).reduce()
dist.destroy_process_group()
