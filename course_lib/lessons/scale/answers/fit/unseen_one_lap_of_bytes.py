# misconception: one_lap
import numpy as np


def fit(measurements):
    m = np.asarray(measurements)
    n, b, t = m[:, 0], m[:, 1], m[:, 2]
    small, large = b <= 4096, b >= 2**26
    latency = (t[small] / (2 * (n[small] - 1))).mean()
    sent = (n[large] - 1) / n[large] * b[large]
    return latency, (sent / (t[large] - 2 * (n[large] - 1) * latency)).mean()
