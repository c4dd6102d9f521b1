# misconception: seconds_a_byte
import numpy as np


def fit(measurements):
    a = [[2 * (n - 1), 2 * (n - 1) / n * b] for n, b, _ in measurements]
    t = [s for _, _, s in measurements]
    weights = 1 / np.array(t)
    normal = (np.array(a) * weights[:, None])
    x = np.linalg.inv(normal.T @ normal) @ normal.T @ (np.array(t) * weights)
    return tuple(x)
