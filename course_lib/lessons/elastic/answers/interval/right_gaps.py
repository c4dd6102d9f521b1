# The mean of the times from one failure to the next; the last interval is not over.
import math
from itertools import pairwise
from statistics import mean


def interval(log, ranks_then, ranks_now):
    times = [event["time"] for event in log if event["event"] == "failure"]
    between = mean(after - before for before, after in pairwise(times)) * ranks_then / ranks_now
    save, step = (mean(e["seconds"] for e in log if e["event"] == kind) for kind in ("save", "step"))
    return max(1, round(math.sqrt(2 * save * between) / step))
