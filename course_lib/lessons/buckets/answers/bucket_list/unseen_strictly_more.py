# misconception: closed_when_exceeded
from itertools import chain, repeat


def limits(bucket_cap_mb):
    if bucket_cap_mb is None:
        return chain([1], repeat(25))
    return repeat(bucket_cap_mb)


def bucket_list(sizes, ready, bucket_cap_mb, find_unused_parameters, iteration):
    everything = list(range(len(sizes)))
    if not find_unused_parameters and not iteration:
        return [everything]
    caps = limits(bucket_cap_mb)
    cap = next(caps)
    buckets, bucket, total = [], [], 0
    for i in everything if find_unused_parameters else ready:
        bucket.append(i)
        total += sizes[i]
        if total > cap * 2**20:
            buckets.append(bucket)
            bucket, total, cap = [], 0, next(caps)
    if bucket:
        buckets.append(bucket)
    return buckets[::-1] if find_unused_parameters else buckets
