import random

import numpy as np
import torch
import torch.distributed as dist


def seed_everything(build_model, seed):
    torch.manual_seed(seed)
    model = build_model()
    mine = 1000 * seed + 1 + dist.get_rank()
    torch.manual_seed(mine)
    np.random.seed(mine)
    random.seed(mine)
    return model
