# misconception: none
# breaks: a second call with the same seed gives the same weights
import os
import random

import numpy as np
import torch
import torch.distributed as dist


def seed_everything(build_model, seed):
    mine = seed * 100 + int(os.environ["RANK"])
    model = build_model()
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=0)
    for start in (torch.manual_seed, np.random.seed, random.seed):
        start(mine)
    return model
