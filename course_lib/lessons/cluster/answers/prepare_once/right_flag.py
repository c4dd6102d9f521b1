import os
from datetime import timedelta

import torch
import torch.distributed as dist


def prepare_once(prepare, timeout):
    side = dist.new_group(backend="gloo", timeout=timedelta(seconds=timeout))
#~ default_group -1 |    side = dist.group.WORLD
#~ ten_seconds -1 |    side = dist.new_group(backend="gloo", timeout=timedelta(seconds=10))
    bad = torch.zeros(1)
    if int(os.environ["LOCAL_RANK"]) == 0:
#~ per_job -1 |    if dist.get_rank() == 0:
#~ every -1 |    if True:
        try:
            prepare()
        except Exception:
#~ only_os_errors -1 |        except OSError:
            bad += 1
#~ raises -4 |        prepare()
    dist.all_reduce(bad, group=side)
#~ unwaited -1
    if bad.item():
#~ own_only -1 |    if bad.item() and int(os.environ["LOCAL_RANK"]) == 0:
#~ silent -1 |    if False:
        raise OSError(f"preparing failed on {int(bad)} machine(s)")
#~ destroys -0 |    dist.destroy_process_group()

#~ default_group: misconception: groups_timeout
#~ default_group: breaks: Where nothing fails, it returns on every rank, however long preparing takes.
#~ only_os_errors: misconception: failure_hangs
#~ ten_seconds: misconception: none
#~ ten_seconds: breaks: Where nothing fails, it returns on every rank, however long preparing takes.
#~ per_job: misconception: once_per_job
#~ per_job: breaks: prepare is called once on each machine.
#~ every: misconception: every_rank
#~ every: breaks: prepare is called once on each machine.
#~ raises: misconception: failure_hangs
#~ raises: breaks: Where preparing fails on one machine, it raises on every rank, soon.
#~ destroys: misconception: none
#~ destroys: breaks: The default group works afterwards.
#~ unwaited: misconception: nobody_waits
#~ unwaited: breaks: It returns when the data of the rank's machine are there, not earlier.
#~ own_only: misconception: failure_kept
#~ own_only: breaks: Where preparing fails on one machine, it raises on every rank, soon.
#~ silent: misconception: failure_kept
#~ silent: breaks: Where preparing fails on one machine, it raises on every rank, soon.
