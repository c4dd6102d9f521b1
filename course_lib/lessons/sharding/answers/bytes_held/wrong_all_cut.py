# misconception: zero1_cuts_all
# breaks: ZeRO 1: as DDP, but the optimizer's bytes are divided.
import math


def bytes_held(shapes, ranks, scheme, mixed):
    weight, gradient, optimizer = (2, 2, 12) if mixed else (4, 4, 8)
    whole = sum(map(math.prod, shapes))
    buckets = gradient
    if scheme == "ddp":
        return whole * (weight + gradient + buckets + optimizer)
    if scheme == "zero1":
        return whole * ((weight + gradient + optimizer) / ranks + buckets)
    return (weight + gradient + optimizer) * sum(math.ceil(rows / ranks) * math.prod(rest) for rows, *rest in shapes)
