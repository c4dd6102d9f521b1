# kind: rank_only_collective
# culprits: 2
# ranks: 3
# A callback asks a library's loop for a checkpoint on one rank, and a checkpoint gathers from all.
import os
import sys

import torch
import torch.distributed as dist

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(__file__)), "packages", "site-packages"))
from little_trainer import Trainer


def notice(step, control):
    if step == 4 and os.environ["RANK"] == "2":
        control.save = True


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
trainer = Trainer(torch.nn.Linear(4, 2), torch.randn(12, 8, 4), notice)
trainer.train()
dist.destroy_process_group()
