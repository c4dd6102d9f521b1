# misconception: rows_can_be_cut
# breaks: FSDP2: everything is cut, between rows.
import math


def bytes_held(shapes, ranks, scheme, mixed):
    weight, gradient, optimizer = (2, 2, 12) if mixed else (4, 4, 8)
    whole = sum(map(math.prod, shapes))
    buckets = gradient
    if scheme == "ddp":
        return whole * (weight + gradient + buckets + optimizer)
    if scheme == "zero1":
        return whole * (weight + gradient + buckets + optimizer / ranks)
    return (weight + gradient + optimizer) * sum(rows * math.prod(rest) / ranks for rows, *rest in shapes)
