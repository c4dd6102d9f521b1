# misconception: seeds_added
# breaks: With the next seed, no rank draws what another rank has drawn with this one.
# breaks: with the next seed, no rank draws what another rank draws with this one
import random

import numpy as np
import torch
import torch.distributed as dist


def seed_everything(build_model, seed):
    torch.manual_seed(seed)
    model = build_model()
    mine = seed + 1 + dist.get_rank()
    torch.manual_seed(mine)
    np.random.seed(mine)
    random.seed(mine)
    return model
