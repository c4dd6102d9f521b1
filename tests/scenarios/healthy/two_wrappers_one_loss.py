# kind: none
# ranks: 2
# An encoder and a decoder, each wrapped on a group of its own, trained with one loss and one optimizer.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
everyone = list(range(dist.get_world_size()))
torch.manual_seed(dist.get_rank())
encoder = DDP(torch.nn.Linear(4, 2), process_group=dist.new_group(everyone))
decoder = DDP(torch.nn.Linear(2, 4), process_group=dist.new_group(everyone))
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()])
for _ in range(4):
    x = torch.randn(8, 4)
    optimizer.zero_grad()
    (decoder(encoder(x).relu()) - x).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
