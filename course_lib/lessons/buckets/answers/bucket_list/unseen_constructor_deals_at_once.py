# misconception: buckets_from_the_start
MIB = 2**20


def deal(order, sizes, first, later):
    buckets, current, filled = [], [], 0
    for number in order:
        current.append(number)
        filled += sizes[number]
        if filled >= (later if buckets else first):
            buckets.append(current)
            current, filled = [], 0
    return buckets + [current] if current else buckets


def bucket_list(sizes, ready, bucket_cap_mb, find_unused_parameters, iteration):
    first, later = (1 * MIB, 25 * MIB) if bucket_cap_mb is None else (bucket_cap_mb * MIB,) * 2
    if find_unused_parameters or iteration == 0:
        return deal(range(len(sizes)), sizes, first, later)[::-1]
    return deal(ready, sizes, first, later)
