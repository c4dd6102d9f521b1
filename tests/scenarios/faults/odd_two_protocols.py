# kind: nobody_answers
# culprits: -
# ranks: 2
# Two ways to hand over a configuration: rank 0 waits for a message, rank 1 looks it up in a store.
import os

import torch
import torch.distributed as dist


def connect():
    return dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)


dist.init_process_group("gloo")
store = connect()
dist.all_reduce(torch.ones(2))
if dist.get_rank() == 0:
    length = torch.zeros(1, dtype=torch.int64)
    work = dist.irecv(length, src=1)
    work.wait()
else:
    configuration = store.get("configuration")
dist.destroy_process_group()
