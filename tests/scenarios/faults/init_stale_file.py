# kind: init_stale_address
# culprits: 1
# ranks: 2
# The file of a run that was killed: a rank finds the addresses of yesterday in it, and does not wait for today's.
import os
import tempfile
import time
from datetime import timedelta

import torch.distributed as dist
import torch.multiprocessing as mp

store = os.path.join(tempfile.gettempdir(), f"store-{os.getppid()}-{os.environ['MASTER_PORT']}")
rank = int(os.environ["RANK"])


def join(number, seconds):
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=number, world_size=2, timeout=timedelta(seconds=seconds)
    )


def killed(number):
    join(number, seconds=60)
    dist.barrier()
    os._exit(0)


if rank == 0:
    while not os.path.exists(f"{store}.over"):  # it is late: the data are far away
        time.sleep(0.01)
    os.unlink(f"{store}.over")
else:
    mp.start_processes(killed, nprocs=2, start_method="fork")
    try:
        join(rank, seconds=0.4)
    finally:
        os.unlink(store)
        open(f"{store}.over", "w").close()
