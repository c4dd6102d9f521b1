# misconception: seed_ignored
# breaks: Another seed gives other weights and other random numbers.
# breaks: another seed gives others
# seed * rank is 0 on rank 0, whatever the seed.
import random

import numpy as np
import torch
import torch.distributed as dist


def seed_everything(build_model, seed):
    torch.manual_seed(seed)
    model = build_model()
    mine = seed * dist.get_rank()
    torch.manual_seed(mine)
    np.random.seed(mine)
    random.seed(mine)
    return model
