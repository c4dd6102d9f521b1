# misconception: same_noise_everywhere
# breaks: from each of the three global generators: `torch`
import random

import numpy as np
import torch
import torch.distributed as dist


def seed_everything(build_model, seed):
    torch.manual_seed(seed)
    model = build_model()
    mine = 1000 * seed + 1 + dist.get_rank()
    np.random.seed(mine)
    random.seed(mine)
    return model
