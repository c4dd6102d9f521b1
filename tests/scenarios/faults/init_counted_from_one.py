# kind: init_rank_missing
# culprits: 1
# ranks: 2
# The ranks are numbered 1 and 2; the store is torchrun's, so that only the last of them is refused.
import os

import torch.distributed as dist

rank = int(os.environ["RANK"]) + 1
#~ mended -1 |rank = int(os.environ["RANK"])
dist.init_process_group("gloo", rank=rank, world_size=int(os.environ["WORLD_SIZE"]))
dist.barrier()
dist.destroy_process_group()
