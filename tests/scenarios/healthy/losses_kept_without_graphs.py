# kind: none
# ranks: 2
# What is kept of each step has no graph behind it, or only as long as the window of the last steps lets it live; the
# hidden state of a sequence is detached between its pieces, and a penalty makes a graph of a graph.
from collections import deque

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Pieces(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.GRUCell(4, 8), nn.Linear(8, 1)

    def forward(self, xs, hidden):
        for x in xs:
            hidden = self.cell(x, hidden)
        return self.head(hidden), hidden


dist.init_process_group("gloo")
generator = torch.Generator().manual_seed(dist.get_rank())
model = DDP(Pieces())
optimizer = torch.optim.Adam(model.parameters())
hidden, log, outputs, window, total = torch.zeros(8, 8), [], [], deque(maxlen=3), 0.0
for _ in range(16):
    xs = torch.randn(3, 8, 4, generator=generator, requires_grad=True)
    out, hidden = model(xs, hidden.detach())
    (slope,) = torch.autograd.grad(out.sum(), xs, create_graph=True)
    loss = out.square().mean() + 0.1 * slope.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    log.append(loss.detach())
    outputs.append(out.detach().cpu())
    window.append(out)
    total += loss.item()
dist.destroy_process_group()
