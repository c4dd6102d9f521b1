#~ times_rank -0 |# seed * rank is 0 on rank 0, whatever the seed.
import random

import numpy as np
#~ only_torch -3
import torch
import torch.distributed as dist
#~ same_everywhere -1


def seed_everything(build_model, seed):
    torch.manual_seed(seed)
#~ constant -2 |def seed_everything(build_model, seed=0):
#~ |    torch.manual_seed(42)
    model = build_model()
    mine = 1000 * seed + 1 + dist.get_rank()
#~ added -1 |    mine = seed + 1 + dist.get_rank()
#~ different_init -3 |    mine = 1000 * seed + dist.get_rank()
#~ seeds_only -2 |    build_model()
#~ |    mine = seed + 1 + dist.get_rank()
#~ times_rank -1 |    mine = seed * dist.get_rank()
    torch.manual_seed(mine)
#~ torch_shared -1
    np.random.seed(mine)
    random.seed(mine)
#~ constant -4 |    for start in (torch.manual_seed, np.random.seed, random.seed):
#~ |        start(42 + dist.get_rank())
#~ numpy_shared -4 |    torch.manual_seed(1000 * seed + dist.get_rank())
#~ |    np.random.seed(seed)
#~ |    random.seed(1000 * seed + dist.get_rank())
#~ only_torch -4 |    torch.manual_seed(1000 * seed + dist.get_rank())
    return model
#~ different_init -1 |    return build_model()
#~ same_everywhere -6 |    np.random.seed(seed)
#~ |    random.seed(seed)
#~ |    return build_model()
#~ seeds_only -1

#~ added: misconception: seeds_added
#~ added: breaks: With the next seed, no rank draws what another rank has drawn with this one.
#~ constant: misconception: seed_ignored
#~ constant: breaks: Another seed gives other weights and other random numbers.
#~ different_init: misconception: different_init
#~ different_init: breaks: All ranks start from the same weights.
#~ numpy_shared: misconception: same_noise_everywhere
#~ numpy_shared: breaks: Every rank draws its own random numbers: from torch, numpy and random.
#~ only_torch: misconception: generator_forgotten
#~ only_torch: breaks: The same seed gives the same weights and the same random numbers again.
#~ same_everywhere: misconception: same_noise_everywhere
#~ same_everywhere: breaks: Every rank draws its own random numbers: from torch, numpy and random.
#~ seeds_only: misconception: none
#~ times_rank: misconception: seed_ignored
#~ times_rank: breaks: Another seed gives other weights and other random numbers.
#~ torch_shared: misconception: same_noise_everywhere
