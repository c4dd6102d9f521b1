# kind: init_rank_missing
# culprits: 1
# ranks: 3
# One rank believes that it trains alone and never calls init_process_group.
import os

import torch
import torch.distributed as dist


def distributed():
    return os.environ["RANK"] != "1"


if distributed():
    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(1))
print("trained")
