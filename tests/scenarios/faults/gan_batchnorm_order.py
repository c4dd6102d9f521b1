# kind: different_order
# culprits: -
# ranks: 3
# One rank trains the discriminator first, in code of its own; both models have BatchNorm.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
generator = DDP(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 4)))
discriminator = DDP(
    torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
)


def train_generator():
    generator(torch.randn(8, 4)).square().mean().backward()


def train_discriminator():
    discriminator(torch.randn(8, 4)).square().mean().backward()


for _ in range(3):
    if rank == 2:
        train_discriminator()
        train_generator()
    else:
        train_generator()
        train_discriminator()
dist.destroy_process_group()
