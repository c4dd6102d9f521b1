# kind: gradients_not_averaged
# culprits: -
# ranks: 2
# A library calls the step within DDP's forward; it calls loss.backward(), not the library's own call.
import os
import sys

import torch
import torch.distributed as dist

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(__file__)), "packages", "site-packages"))
from little_manual_trainer import Trainer


def step(module, x):
    optimizer.zero_grad()
    loss = module.model(x).square().mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.detach()


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
Trainer(model, torch.randn(12, 8, 4), step).train()
dist.destroy_process_group()
