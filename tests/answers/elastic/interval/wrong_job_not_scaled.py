# misconception: job_not_scaled
# breaks: Saving that often costs at most 2 % more than the best interval.
# breaks: each rank fails as often as before
import math
from statistics import mean


def interval(log, ranks_then, ranks_now):
    def seconds(kind):
        return [event["seconds"] for event in log if event["event"] == kind]

    failures = len(seconds("failure"))
    between = (log[-1]["time"] - log[0]["time"]) / failures
    return max(1, round(math.sqrt(2 * mean(seconds("save")) * between) / mean(seconds("step"))))
