# misconception: absolute_errors
import torch


def fit(measurements):
    data = torch.tensor(measurements, dtype=torch.float64)
    n, size, seconds = data.unbind(1)
    hops = 2 * n - 2
    design = torch.stack((hops, hops * size / n), dim=1)
    solution = torch.linalg.lstsq(design, seconds[:, None]).solution.flatten()
    return float(solution[0]), float(solution[1].reciprocal())
