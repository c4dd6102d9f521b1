#~ never_destroyed -0 |import gc
from datetime import timedelta

#~ timeout -2
import torch.distributed as dist

#~ flag -0 |started = False
#~ |
#~ only_once -0 |done = []
#~ |

def setup(timeout):
#~ remembers -0 |    global group
    if not dist.is_initialized():
#~ flag -1 |    global started
#~ |    if not started:
#~ only_once -1 |    if not done:
        dist.init_process_group("gloo", timeout=timedelta(seconds=timeout))
#~ alone -1 |        store = dist.HashStore()
#~ |        dist.init_process_group("gloo", store=store, rank=0, world_size=1, timeout=timedelta(seconds=timeout))
#~ flag -0 |        started = True
#~ made_anew -2 |    cleanup()
#~ |    dist.init_process_group("gloo", timeout=timedelta(seconds=timeout))
#~ minutes -1 |        dist.init_process_group("gloo", timeout=timedelta(minutes=timeout))
#~ nccl -1 |        dist.init_process_group("nccl", timeout=timedelta(seconds=timeout))
#~ only_once -0 |        done.append(True)
#~ remembers -0 |    group = dist.group.WORLD
#~ timeout -1 |        dist.init_process_group("gloo")
#~ other_timeout -0 |    else:
#~ |        dist.distributed_c10d._set_pg_timeout(timedelta(seconds=timeout))
#~ twice -2 |    dist.init_process_group("gloo", timeout=timedelta(seconds=timeout))


def cleanup():
    if dist.is_initialized():
#~ barrier -0 |        dist.barrier()
#~ remembers -1 |    global group
#~ |    if group is not None:
        dist.destroy_process_group()
#~ barrier_unchecked -2 |    dist.barrier()  # the first fault; without a group it raises before the second one can
#~ |    dist.destroy_process_group()
#~ destroyed_twice -2 |    dist.destroy_process_group()
#~ never_destroyed -2 |    gc.collect()
#~ remembers -0 |        group = None

#~ alone: misconception: none
#~ alone: breaks: All ranks are in it: a sum over the group is the sum over all ranks.
#~ barrier: misconception: waits_at_the_end
#~ barrier: breaks: cleanup() waits for nobody: a rank that has failed can call it alone.
#~ barrier_unchecked: misconception: waits_at_the_end
#~ destroyed_twice: misconception: destroyed_twice
#~ flag: misconception: own_flag
#~ flag: breaks: setup(timeout) makes a process group, and there is a cleanup().
#~ made_anew: misconception: made_anew
#~ made_anew: breaks: A second setup() leaves the group as it is.
#~ minutes: misconception: none
#~ minutes: breaks: The group's timeout is the one asked for.
#~ nccl: misconception: none
#~ never_destroyed: misconception: never_destroyed
#~ never_destroyed: breaks: After cleanup() there is no process group.
#~ only_once: misconception: own_flag
#~ only_once: breaks: After cleanup(), setup() makes a new one.
#~ other_timeout: misconception: made_anew
#~ remembers: misconception: none
#~ timeout: misconception: timeout_ignored
#~ timeout: breaks: The group's timeout is the one asked for.
#~ twice: misconception: initialised_twice
