# misconception: absolute_errors
# breaks: The latency is that of one round, up to the scatter of the measurements.
import numpy as np


def fit(measurements):
    rows, ones = [], []
    for ranks, size, seconds in measurements:
        rounds = 2 * (ranks - 1)
        rows.append([rounds, rounds / ranks * size])
        ones.append(seconds)
    latency, per_byte = np.linalg.lstsq(np.array(rows), np.array(ones), rcond=None)[0]
    return latency, 1 / per_byte
