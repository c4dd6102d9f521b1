# misconceptions: latency_of_a_call, whole_tensor
import numpy


def fit(measurements):
    by_ranks = {}
    for ranks, size, seconds in measurements:
        by_ranks.setdefault(ranks, []).append((size, seconds))
    intercepts, slopes = [], []
    for points in by_ranks.values():
        x, y = numpy.array(points, dtype=float).T
        slope, intercept = numpy.polyfit(x, y, 1, w=1 / y)
        intercepts.append(intercept)
        slopes.append(slope)
    return numpy.mean(intercepts), 1 / numpy.mean(slopes)
