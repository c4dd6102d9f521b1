# kind: uneven_batches
# culprits: 1
# ranks: 2
# A callback ends a library's loop where this machine is to be given back: the others train on.
import os
import sys

import torch
import torch.distributed as dist

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(__file__)), "packages", "site-packages"))
from little_trainer import Trainer


def notice(step, control):
    if step == 6 and dist.get_rank() == 1:
        control.stop = True


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
trainer = Trainer(torch.nn.Linear(4, 2), torch.randn(12, 8, 4), notice)
trainer.train()
dist.destroy_process_group()
