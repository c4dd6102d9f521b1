# kind: different_order
# culprits: -
# ranks: 2
# Generator and discriminator have a group each, made in the same order; rank 1 calls them in the other order.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
groups = [dist.new_group(), dist.new_group()]
players = [DDP(torch.nn.Linear(4, 4), process_group=group) for group in groups]
optimizers = [torch.optim.SGD(player.parameters(), lr=0.1) for player in players]
turns = [0, 1] if dist.get_rank() == 0 else [1, 0]
for _ in range(4):
    for turn in turns:
        optimizers[turn].zero_grad()
        players[turn](torch.randn(8, 4)).square().mean().backward()
        optimizers[turn].step()
dist.destroy_process_group()
