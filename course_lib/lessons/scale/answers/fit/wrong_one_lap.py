# misconception: one_lap
# breaks: The latency is that of one round, up to the scatter of the measurements.
import numpy as np


def fit(measurements):
    rows, ones = [], []
    for ranks, size, seconds in measurements:
        rounds = 2 * (ranks - 1)
        rows.append([rounds / 2 / seconds, rounds / 2 / ranks * size / seconds])
        ones.append(1.0)
    latency, per_byte = np.linalg.lstsq(np.array(rows), np.array(ones), rcond=None)[0]
    return latency, 1 / per_byte
