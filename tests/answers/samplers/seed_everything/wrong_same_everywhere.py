# misconception: same_noise_everywhere
# breaks: Every rank draws its own random numbers: from torch, numpy and random.
# breaks: differs from rank to rank
# breaks: every rank draws random numbers of its own
import random

import numpy as np
import torch


def seed_everything(build_model, seed):
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)
    return build_model()
