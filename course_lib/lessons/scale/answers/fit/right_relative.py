import numpy as np


def fit(measurements):
    ranks, size, seconds = (np.array(column, dtype=float) for column in zip(*measurements))
    rounds = 2 * (ranks - 1)
    rows = np.stack([rounds, rounds / ranks * size], axis=1) / seconds[:, None]
#~ half_the_rounds -1 |    rows = np.stack([rounds / 2, rounds / ranks * size], axis=1) / seconds[:, None]
#~ half_the_bytes -1 |    rows = np.stack([rounds, rounds / 2 / ranks * size], axis=1) / seconds[:, None]
    latency, per_byte = np.linalg.lstsq(rows, np.ones(len(rows)), rcond=None)[0]
    return latency, 1 / per_byte

#~ half_the_rounds: misconception: one_lap
#~ half_the_rounds: breaks: The latency is that of one round, up to the scatter of the measurements.
#~ half_the_bytes: misconception: one_lap
#~ half_the_bytes: breaks: The bandwidth is that of one rank's wire, up to the scatter of the measurements.
