# misconception: ddp_divides
# breaks: DDP: everything on every rank, and the buckets.
import math


def bytes_held(shapes, ranks, scheme, mixed):
    weight, gradient, optimizer = (2, 2, 12) if mixed else (4, 4, 8)
    whole = sum(map(math.prod, shapes))
    buckets = gradient
    if scheme == "ddp":
        return whole * (weight + gradient + buckets + optimizer / ranks)
    if scheme == "zero1":
        return whole * (weight + gradient + buckets + optimizer / ranks)
    return (weight + gradient + optimizer) * sum(math.ceil(rows / ranks) * math.prod(rest) for rows, *rest in shapes)
