# The slowest rank measures both: its own step, and a reduction without waiting. It counts up until the share is kept.
import torch.distributed as dist


def sync_interval(step_seconds, reduce_seconds, share, longest):
    mine = (sorted(step_seconds)[len(step_seconds) // 2], sum(reduce_seconds) / len(reduce_seconds))
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, mine)
    step, reduction = max(everyones)
    k = 1
    while k < longest and reduction > share * (k * step + reduction):
        k += 1
    return k
