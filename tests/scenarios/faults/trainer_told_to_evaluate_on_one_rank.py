# kind: rank_only_collective
# culprits: 0
# ranks: 2
# A callback asks a library's loop to evaluate where the loss is shown; the average is every rank's.
import os
import sys

import torch
import torch.distributed as dist

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(__file__)), "packages", "site-packages"))
from little_trainer import Trainer


def notice(step, control):
    control.evaluate = step % 5 == 0 and dist.get_rank() == 0


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
trainer = Trainer(
    torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)), torch.randn(12, 8, 4), notice
)
trainer.train()
dist.destroy_process_group()
