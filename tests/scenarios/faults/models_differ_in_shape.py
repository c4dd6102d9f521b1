# kind: different_models
# culprits: -
# ranks: 2
# The number of classes is counted on each rank's own data.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def build(labels):
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, len(set(labels))))


dist.init_process_group("gloo")
labels = [0, 1, 2, 1] if dist.get_rank() == 0 else [0, 1, 1, 0]
model = DDP(build(labels))
model(torch.randn(8, 4)).sum().backward()
dist.destroy_process_group()
