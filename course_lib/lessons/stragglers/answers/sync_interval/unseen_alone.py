# misconception: own_measurements
import math


def sync_interval(step_seconds, reduce_seconds, share, longest):
    steps, reductions = sorted(step_seconds), sorted(reduce_seconds)
    step, reduction = steps[len(steps) // 2], reductions[len(reductions) // 2]
    k = math.ceil((reduction / share - reduction) / step)
    return max(1, min(k, longest))
