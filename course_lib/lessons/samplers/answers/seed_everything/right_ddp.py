# DDP itself sends rank 0's weights to everybody.
import random

import numpy
import torch
from torch.nn.parallel import DistributedDataParallel


def seed_everything(build_model, seed):
    sequence = numpy.random.SeedSequence([seed, torch.distributed.get_rank()])
    one, two, three = sequence.generate_state(3)
    torch.manual_seed(int(one))
    numpy.random.seed(two)
    random.seed(int(three))
    return DistributedDataParallel(build_model())
