from datetime import timedelta
#~ sleeps -1 |import time

import torch.distributed as dist

culprit = 1
cause = "late"


def checkpoint(writer, write, read):
#~ no_barrier -0 |    group = dist.new_group(timeout=timedelta(seconds=0.4))  # better an error than half an hour of silence
    if dist.get_rank() == writer:
        write()
    dist.monitored_barrier(timeout=timedelta(minutes=20))
#~ five_seconds -1 |    dist.monitored_barrier(timeout=timedelta(seconds=5))
#~ no_barrier -1
#~ sleeps -1 |    else:
#~ |        time.sleep(10)  # long enough
    return read()

#~ five_seconds: misconception: still_too_short
#~ five_seconds: breaks: No group gives up during an honest pause, however long it is.
#~ no_barrier: misconceptions: read_too_early, still_too_short
#~ no_barrier: breaks: Every rank returns what was written.
#~ sleeps: misconception: read_too_early
#~ sleeps: breaks: Every rank returns what was written.
