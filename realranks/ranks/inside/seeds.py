"""The random numbers of a rank are its own, as those of a process that a launcher has started.

A forked process has its parent's generators, so all ranks would draw the same numbers: the same first weights, the same
order of samples, the same dropout. Each is therefore seeded anew before any of the learner's code.
"""

from __future__ import annotations

import os
import random
import sys

#: Where outputs are saved and compared: rank r is seeded with this number plus r, in every gang. Otherwise each rank
#: takes its seed from the system.
SEED_VARIABLE = "DDP_COURSE_SEED"


def seed_rank(rank: int) -> None:
    """Give this process random numbers that no other rank draws: in torch, in Python's `random`, and in numpy.

    What is not loaded yet takes a seed from the system when it is, and Python's `random` did so in the fork.
    """
    fixed = os.environ.get(SEED_VARIABLE)
    if fixed:
        import numpy as np
        import torch

        seed = int(fixed) + rank
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        return
    if "torch" in sys.modules:
        # Not torch.seed(): it formats the whole stack for GPUs, whose generators take a seed of their own anyway.
        sys.modules["torch"].default_generator.seed()
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
