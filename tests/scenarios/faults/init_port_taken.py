# kind: init_port_taken
# culprits: 0
# ranks: 2
# args: --port {free_port}
# Something else already listens on the port that is written into the script.
import argparse
import os
import socket

import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--port", type=int)
port = parser.parse_args().port
rank = int(os.environ.pop("RANK"))
os.environ.pop("TORCHELASTIC_USE_AGENT_STORE", None)
if rank == 0:
    other = socket.create_server(("127.0.0.1", port))
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
dist.destroy_process_group()
