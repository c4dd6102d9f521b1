# misconception: own_measurements
import math
from statistics import mean


def sync_interval(step_seconds, reduce_seconds, share, longest):
    needed = mean(reduce_seconds) / share / mean(step_seconds)
    return min(longest, max(1, math.ceil(needed)))
