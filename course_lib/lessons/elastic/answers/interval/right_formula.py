import math
from statistics import mean


def interval(log, ranks_then, ranks_now):
    def seconds(kind):
        return [event["seconds"] for event in log if event["event"] == kind]

    failures = len(seconds("failure"))
    between = (log[-1]["time"] - log[0]["time"]) / failures * ranks_then / ranks_now
#~ inverse -1 |    between = (log[-1]["time"] - log[0]["time"]) / failures * ranks_now / ranks_then
#~ job_not_scaled -1 |    between = (log[-1]["time"] - log[0]["time"]) / failures
    return max(1, round(math.sqrt(2 * mean(seconds("save")) * between) / mean(seconds("step"))))
#~ half_forgotten -1 |    return max(1, round(math.sqrt(mean(seconds("save")) * between) / mean(seconds("step"))))
#~ restart_counted -1 |    return max(1, round(math.sqrt(2 * (mean(seconds("save")) + mean(seconds("failure"))) * between) / mean(seconds("step"))))
#~ restart_only -1 |    return max(1, round(math.sqrt(2 * mean(seconds("failure")) * between) / mean(seconds("step"))))
#~ seconds_returned -1 |    return max(1, round(math.sqrt(2 * mean(seconds("save")) * between)))

#~ half_forgotten: misconception: half_forgotten
#~ half_forgotten: breaks: Saving that often costs at most 2 % more than the best interval.
#~ inverse: misconception: scaled_the_wrong_way
#~ inverse: breaks: Saving that often costs at most 2 % more than the best interval.
#~ job_not_scaled: misconception: job_not_scaled
#~ job_not_scaled: breaks: Saving that often costs at most 2 % more than the best interval.
#~ restart_counted: misconception: restart_counted
#~ restart_counted: breaks: Saving that often costs at most 2 % more than the best interval.
#~ restart_only: misconception: restart_counted
#~ seconds_returned: misconception: seconds_returned
#~ seconds_returned: breaks: Saving that often costs at most 2 % more than the best interval.
