# misconception: decimal
MB = 1_000_000


def deal(order, sizes, caps):
    result = []
    bucket = []
    for p in order:
        bucket.append(p)
        cap = caps[min(len(result), len(caps) - 1)]
        if sum(sizes[q] for q in bucket) >= cap * MB:
            result.append(bucket)
            bucket = []
    if bucket:
        result.append(bucket)
    return result


def bucket_list(sizes, ready, bucket_cap_mb, find_unused_parameters, iteration):
    caps = [1, 25] if bucket_cap_mb is None else [bucket_cap_mb]
    numbers = list(range(len(sizes)))
    if find_unused_parameters:
        return list(reversed(deal(numbers, sizes, caps)))
    return deal(ready, sizes, caps) if iteration else [numbers]
