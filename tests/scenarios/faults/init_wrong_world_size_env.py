# kind: init_wrong_world_size
# culprits: -
# ranks: 2
# A start script of another machine exports WORLD_SIZE=4.
import os

import torch.distributed as dist

os.environ["WORLD_SIZE"] = "4"
dist.init_process_group("gloo")
dist.barrier()
