# misconception: ddp_divides
from functools import reduce


def count(shape):
    return reduce(lambda a, b: a * b, shape, 1)


def bytes_held(shapes, ranks, scheme, mixed):
    total = sum(count(s) for s in shapes)
    weight = grad = 2 if mixed else 4
    adam = 8 + (4 if mixed else 0)
    buckets = grad
    if scheme == "ddp":
        return total * (weight + grad + buckets + adam / ranks)
    if scheme == "zero1":
        return total * (weight + grad + buckets + adam / ranks)
    return sum(-(-s[0] // ranks) * count(s[1:]) for s in shapes) * (weight + grad + adam)
