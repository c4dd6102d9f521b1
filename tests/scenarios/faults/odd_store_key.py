# kind: nobody_answers
# culprits: -
# ranks: 2
# Hand-made signalling through a store: rank 0 waits for a key that nobody sets, rank 1 is in a barrier meanwhile.
import os

import torch.distributed as dist

dist.init_process_group("gloo")
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
if dist.get_rank() == 0:
    store.wait(["data/ready"])
dist.barrier()
dist.destroy_process_group()
