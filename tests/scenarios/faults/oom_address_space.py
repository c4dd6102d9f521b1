# kind: out_of_memory
# culprits: 1
# ranks: 2
# One rank may use less memory than its batch needs: a real failure of torch's allocator.
import resource

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(torch.nn.Linear(4, 64))
if rank == 1:
    with open("/proc/self/statm") as statm:
        used = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**27, used + 2**27))
for size in (8, 8, 1_000_000 if rank == 1 else 8):
    model(torch.zeros(size, 4)).square().mean().backward()
dist.destroy_process_group()
