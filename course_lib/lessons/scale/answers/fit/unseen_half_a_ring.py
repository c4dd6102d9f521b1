# misconception: one_lap
import statistics


def fit(measurements):
    hops = lambda n: n - 1
    lows = [t / hops(n) for n, b, t in measurements if b == 1024]
    latency = statistics.fmean(lows)
    highs = [hops(n) / n * b / (t - hops(n) * latency) for n, b, t in measurements if b >= 1e8]
    return latency, statistics.fmean(highs)
