# kind: none
# ranks: 2
# A GAN: two DDP models, two optimizers.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
maker = DDP(torch.nn.Linear(3, 4))
critic = DDP(torch.nn.Linear(4, 1))
make = torch.optim.Adam(maker.parameters())
judge = torch.optim.Adam(critic.parameters())
for _ in range(4):
    fake = maker(torch.randn(8, 3))
    judge.zero_grad()
    (critic(fake.detach()).mean() - critic(torch.randn(8, 4)).mean()).backward()
    judge.step()
    make.zero_grad()
    (-critic(fake).mean()).backward()
    make.step()
dist.destroy_process_group()
