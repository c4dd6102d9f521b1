# kind: different_dtypes
# culprits: -
# ranks: 3
# A metric comes from numpy on one rank and is float64 there.
import numpy as np
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
metric = torch.zeros(64)
if dist.get_rank() == 1:
    metric = torch.from_numpy(np.zeros(64))
#~ mended -1 |    metric = torch.from_numpy(np.zeros(64)).float()
dist.all_reduce(metric)
dist.barrier()
dist.destroy_process_group()
