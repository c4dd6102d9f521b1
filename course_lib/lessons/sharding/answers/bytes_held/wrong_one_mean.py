# misconception: one_mean
# breaks: FSDP2: everything is cut, between rows.
import math


def bytes_held(shapes, ranks, scheme, mixed):
    weight, gradient, optimizer = (2, 2, 8) if mixed else (4, 4, 4)
    whole = sum(map(math.prod, shapes))
    buckets = gradient
    if scheme == "ddp":
        return whole * (weight + gradient + buckets + optimizer)
    if scheme == "zero1":
        return whole * (weight + gradient + buckets + optimizer / ranks)
    return (weight + gradient + optimizer) * sum(math.ceil(rows / ranks) * math.prod(rest) for rows, *rest in shapes)
