# misconception: absolute_errors
import numpy


def fit(measurements):
    alphas, betas = [], []
    for n in {ranks for ranks, _, _ in measurements}:
        sizes = [size for ranks, size, _ in measurements if ranks == n]
        times = [seconds for ranks, _, seconds in measurements if ranks == n]
        slope, intercept = numpy.polyfit(sizes, times, 1)
        alphas.append(intercept / (2 * (n - 1)))
        betas.append(slope / (2 * (n - 1) / n))
    return sum(alphas) / len(alphas), len(betas) / sum(betas)
