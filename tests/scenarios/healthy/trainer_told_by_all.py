# kind: none
# ranks: 2
# A callback saves, evaluates and ends a library's loop where all ranks have agreed to.
import os
import sys

import torch
import torch.distributed as dist

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(__file__)), "packages", "site-packages"))
from little_trainer import Trainer


def notice(step, control):
    wanted = torch.tensor([float(step >= 6 and dist.get_rank() == 1)])
    dist.all_reduce(wanted)
    control.evaluate = control.save = step % 3 == 0
    control.stop = bool(wanted.item())


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
trainer = Trainer(torch.nn.Linear(4, 2), torch.randn(12, 8, 4), notice)
trainer.train()
dist.destroy_process_group()
