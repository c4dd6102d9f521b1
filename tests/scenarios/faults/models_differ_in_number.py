# kind: different_models
# culprits: -
# ranks: 2
# One rank builds a layer more.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
layers = [torch.nn.Linear(4, 4) for _ in range(2 + dist.get_rank())]
model = DDP(torch.nn.Sequential(*layers))
model(torch.randn(8, 4)).sum().backward()
dist.destroy_process_group()
