# misconception: seed_ignored
# breaks: Another seed gives other weights and other random numbers.
# breaks: drawn with `seed`
import random

import numpy as np
import torch
import torch.distributed as dist


def seed_everything(build_model, seed=0):
    torch.manual_seed(42)
    model = build_model()
    for start in (torch.manual_seed, np.random.seed, random.seed):
        start(42 + dist.get_rank())
    return model
