# misconception: seconds_a_byte
# breaks: The bandwidth is that of one rank's wire, up to the scatter of the measurements.
import numpy as np


def fit(measurements):
    rows, ones = [], []
    for ranks, size, seconds in measurements:
        rounds = 2 * (ranks - 1)
        rows.append([rounds / seconds, rounds / ranks * size / seconds])
        ones.append(1.0)
    latency, per_byte = np.linalg.lstsq(np.array(rows), np.array(ones), rcond=None)[0]
    return latency, per_byte
