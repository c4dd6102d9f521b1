# kind: none
# ranks: 2
# A library calls the step within DDP's forward, and prepares DDP's reducer before each of its two backward passes.
import os
import sys

import torch
import torch.distributed as dist

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(__file__)), "packages", "site-packages"))
from little_manual_trainer import Trainer


def step(module, x):
    optimizer.zero_grad()
    loss = module.model(x).square().mean()
    module.backward(loss)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    module.backward(module.model(x).abs().mean())
    optimizer.step()
    return loss.detach()


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
Trainer(model, torch.randn(12, 8, 4), step).train()
dist.destroy_process_group()
