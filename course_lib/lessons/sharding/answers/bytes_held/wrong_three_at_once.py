# misconceptions: no_buckets, rows_can_be_cut
# breaks: DDP: everything on every rank, and the buckets.
import math


def bytes_held(shapes, ranks, scheme, mixed):
    numbers = sum(math.prod(shape) for shape in shapes)
    weight, gradient, optimizer = (2, 2, 12) if mixed else (4, 4, 8)
    if scheme == "ddp":
        return numbers * (weight + gradient + optimizer)
    if scheme == "zero1":
        return numbers * (weight + gradient + optimizer / ranks)
    return numbers * (weight + gradient + optimizer) / ranks
