# misconception: same_noise_everywhere
# breaks: Every rank draws its own random numbers: from torch, numpy and random.
# breaks: from each of the three global generators
import random

import numpy as np
import torch
import torch.distributed as dist


def seed_everything(build_model, seed):
    torch.manual_seed(seed)
    model = build_model()
    torch.manual_seed(1000 * seed + dist.get_rank())
    np.random.seed(seed)
    random.seed(1000 * seed + dist.get_rank())
    return model
