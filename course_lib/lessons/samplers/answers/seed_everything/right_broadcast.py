import os
import random

import numpy as np
import torch
import torch.distributed as dist


def seed_everything(build_model, seed):
    mine = seed * 100 + int(os.environ["RANK"])
    for start in (torch.manual_seed, np.random.seed, random.seed):
        start(mine)
#~ seeded_after -2
    model = build_model()
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=0)
#~ seeded_after -0 |    for start in (torch.manual_seed, np.random.seed, random.seed):
#~ |        start(mine)
    return model

#~ seeded_after: misconception: none
