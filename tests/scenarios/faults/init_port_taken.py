# kind: init_port_taken
# culprits: 0
# ranks: 2
# The port of the rendezvous belongs to another program.
import os
import socket

import torch.distributed as dist

rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if rank == 0:
    other_program = socket.create_server(("127.0.0.1", 0))
    port = other_program.getsockname()[1]
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world_size)
    dist.barrier()
