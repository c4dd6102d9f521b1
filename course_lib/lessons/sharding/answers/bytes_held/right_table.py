from math import prod


def bytes_held(shapes, ranks, scheme, mixed):
    n = sum(prod(shape) for shape in shapes)
    if scheme == "ddp":
        return (18 if mixed else 20) * n
    if scheme == "zero1":
        return (6 * n + 12 * n / ranks) if mixed else (12 * n + 8 * n / ranks)
    return 16 * sum(-(-shape[0] // ranks) * prod(shape[1:]) for shape in shapes)
