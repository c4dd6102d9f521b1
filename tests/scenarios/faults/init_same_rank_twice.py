# kind: init_duplicate_rank
# culprits: 1,2
# ranks: 3
# The rank is taken from a node's list with a repetition in it.
import os

import torch.distributed as dist

ranks = [0, 1, 1]
#~ mended -1 |ranks = [0, 1, 2]
os.environ["RANK"] = str(ranks[int(os.environ["LOCAL_RANK"])])
dist.init_process_group("gloo")
dist.barrier()
