# kind: init_rank_missing
# culprits: -
# ranks: 2
# args: {free_port}
# The ranks are numbered 1 and 2, and only rank 0 would make the store.
import os
import sys

import torch.distributed as dist

os.environ.pop("TORCHELASTIC_USE_AGENT_STORE", None)
rank = int(os.environ["RANK"]) + 1
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{sys.argv[1]}", rank=rank, world_size=2)
dist.barrier()
dist.destroy_process_group()
