# kind: none
# ranks: 2
# args: {free_port}
# The ranks are numbered by the script itself, the other way round, and still from 0 on.
import os
import sys

import torch.distributed as dist

os.environ.pop("TORCHELASTIC_USE_AGENT_STORE", None)
rank = 1 - int(os.environ["RANK"])
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{sys.argv[1]}", rank=rank, world_size=2)
dist.barrier()
dist.destroy_process_group()
