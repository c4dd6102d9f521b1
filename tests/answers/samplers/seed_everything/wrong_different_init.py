# misconception: different_init
# breaks: All ranks start from the same weights.
# breaks: all ranks have the same weights
# breaks: equal on all ranks
import random

import numpy as np
import torch
import torch.distributed as dist


def seed_everything(build_model, seed):
    mine = 1000 * seed + dist.get_rank()
    torch.manual_seed(mine)
    np.random.seed(mine)
    random.seed(mine)
    return build_model()
