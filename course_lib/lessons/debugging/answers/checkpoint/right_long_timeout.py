from datetime import timedelta

import torch.distributed as dist

culprit = 1
#~ witness -1 |culprit = 0
cause = "late"
#~ network -1 |cause = "network"


def checkpoint(writer, write, read):
    group = dist.new_group(timeout=timedelta(minutes=10))  # above the longest honest pause
#~ half_a_second -1 |    group = dist.new_group(timeout=timedelta(seconds=0.5))  # better an error than half an hour of silence
#~ one_second -1 |    group = dist.new_group(timeout=timedelta(seconds=1))
#~ ten_years -1 |    group = dist.new_group(timeout=timedelta(days=3650))  # above the longest honest pause
    if dist.get_rank() == writer:
        write()
    dist.barrier(group)
    return read()

#~ half_a_second: misconception: still_too_short
#~ half_a_second: breaks: No group gives up during an honest pause, however long it is.
#~ network: misconception: network_blamed
#~ network: breaks: cause says why.
#~ one_second: misconception: still_too_short
#~ one_second: breaks: No group gives up during an honest pause, however long it is.
#~ ten_years: misconception: none
#~ ten_years: breaks: No group waits for ever.
#~ witness: misconception: witness
#~ witness: breaks: culprit is the rank that does something else than the others.
