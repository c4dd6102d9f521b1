# kind: buffers_drift
# culprits: -
# ranks: 2
# A codebook is a buffer that every rank moves towards its own data, and DDP was told not to synchronise buffers.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Quantizer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.Linear(4, 3)
        self.register_buffer("codebook", torch.randn(16, 3))

    def forward(self, x):
        z = self.encoder(x)
        nearest = torch.cdist(z.detach(), self.codebook).argmin(1)
        with torch.no_grad():
            self.codebook[nearest] = 0.9 * self.codebook[nearest] + 0.1 * z.detach()
        return (z - self.codebook[nearest]).square().mean()


dist.init_process_group("gloo")
torch.manual_seed(0)
model = DDP(Quantizer(), broadcast_buffers=False)
#~ mended -1 |model = DDP(Quantizer())
for buffer in model.buffers():
    dist.broadcast(buffer, src=0)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
torch.manual_seed(1 + dist.get_rank())
for _ in range(5):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).backward()
    optimizer.step()
dist.destroy_process_group()
