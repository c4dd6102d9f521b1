# kind: gradients_not_averaged
# culprits: -
# ranks: 2
# Two forward and two backward passes of the encoder in every step; the decoder beside it is trained as it should be.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
encoder, decoder = DDP(torch.nn.Linear(4, 4)), DDP(torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.1)
for _ in range(6):
    optimizer.zero_grad()
    first, second = encoder(torch.randn(8, 4)), encoder(torch.randn(8, 4))
    first.square().mean().backward()
    second.square().mean().backward()
    decoder(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
