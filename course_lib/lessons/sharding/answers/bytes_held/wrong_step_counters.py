# misconception: none
# breaks: DDP: everything on every rank, and the buckets.
import math


def bytes_held(shapes, ranks, scheme, mixed):
    weight, gradient, optimizer = (2, 2, 12) if mixed else (4, 4, 8)
    if scheme == "fsdp":
        mine = sum(math.ceil(rows / ranks) * math.prod(rest) for rows, *rest in shapes)
        return mine * (weight + gradient + optimizer)
    if scheme == "zero1":
        optimizer /= ranks
    return sum(map(math.prod, shapes)) * (weight + 2 * gradient + optimizer) + 4 * len(shapes)
