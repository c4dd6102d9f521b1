# kind: different_order
# culprits: -
# ranks: 2
# Generator and discriminator are used in another order on one rank.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
generator, discriminator = DDP(torch.nn.Linear(4, 4)), DDP(torch.nn.Linear(4, 1))
players = [generator, discriminator]
if dist.get_rank() == 1:
    players.reverse()
#~ mended -1 |    pass
for _ in range(3):
    for player in players:
        player(torch.randn(8, 4)).square().mean().backward()
dist.destroy_process_group()
