import random

import numpy as np
import torch
import torch.distributed as dist


def seed_everything(build_model, seed):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = build_model()
    shift = 7919 * (dist.get_rank() + 1)
    torch.random.default_generator.manual_seed(seed ^ shift)
    np.random.set_state(np.random.RandomState(seed + shift).get_state())
    random.setstate(random.Random(seed + shift).getstate())
    return model
