# misconception: scaled_the_wrong_way
import math


def interval(log, then, now):
    def average(kind):
        values = [e["seconds"] for e in log if e["event"] == kind]
        return sum(values) / len(values)

    crashes = [e for e in log if e["event"] == "failure"]
    mtbf = log[-1]["time"] / len(crashes) * (now / then)
    cost = average("save")
    return max(1, int(math.sqrt(2 * cost * mtbf) / average("step")))
