def filled(order, sizes, first, rest):
    bucket, total, limit = [], 0, first
    for i in order:
        bucket.append(i)
        total += sizes[i]
        if total >= limit:
            yield tuple(bucket)
            bucket, total, limit = [], 0, rest
    if bucket:
        yield tuple(bucket)


def bucket_list(sizes, ready, bucket_cap_mb, find_unused_parameters, iteration):
    mib = 1024 * 1024
    first, rest = (mib, 25 * mib) if bucket_cap_mb is None else (bucket_cap_mb * mib, bucket_cap_mb * mib)
    if find_unused_parameters:
        return list(reversed(list(filled(range(len(sizes)), sizes, first, rest))))
    if not iteration:
        first = float("inf")
        ready = range(len(sizes))
    return filled(ready, sizes, first, rest)
