# kind: init_wrong_world_size
# culprits: -
# ranks: 2
# args: --port {free_port}
# The number of processes is written into the script, and one fewer was started.
import argparse
import os

import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--port", type=int, required=True)
options = parser.parse_args()
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{options.port}", rank=rank, world_size=3)
dist.barrier()
