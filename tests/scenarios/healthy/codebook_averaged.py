# kind: none
# ranks: 2
# A codebook in a buffer, moved by statistics that are summed over all ranks: it is the same everywhere.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Quantizer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.Linear(4, 3)
        self.register_buffer("codebook", torch.randn(8, 3))

    def forward(self, x):
        z = self.encoder(x)
        nearest = torch.cdist(z.detach(), self.codebook).argmin(1)
        with torch.no_grad():
            chosen = torch.nn.functional.one_hot(nearest, 8).float()
            sums, counts = chosen.T @ z.detach(), chosen.sum(0)
            dist.all_reduce(sums)
            dist.all_reduce(counts)
            moved = counts > 0
            self.codebook[moved] = (
                0.9 * self.codebook[moved] + 0.1 * (sums / counts.clamp(min=1)[:, None])[moved]
            )
        return (z - self.codebook[nearest]).square().mean()


dist.init_process_group("gloo")
torch.manual_seed(0)
model = DDP(Quantizer(), broadcast_buffers=False)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
torch.manual_seed(1 + dist.get_rank())
for _ in range(5):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).backward()
    optimizer.step()
dist.destroy_process_group()
