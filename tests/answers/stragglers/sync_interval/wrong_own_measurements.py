# misconception: own_measurements
# breaks: All ranks return the same interval.
# breaks: All ranks return the same number.
# breaks: the same on every rank
import math
from statistics import median


def sync_interval(step_seconds, reduce_seconds, share, longest):
    needed = median(reduce_seconds) * (1 - share) / (share * median(step_seconds))
    return min(longest, max(1, math.ceil(needed)))
