# misconception: never_rebuilt
def bucket_list(sizes, ready, bucket_cap_mb, find_unused_parameters, iteration):
    numbers = list(range(len(sizes)))
    if not find_unused_parameters:
        return [numbers]
    cap = 1 if bucket_cap_mb is None else bucket_cap_mb
    buckets, start, total = [], 0, 0
    for i, size in enumerate(sizes):
        total += size
        if total >= cap * 2**20:
            buckets.append(numbers[start : i + 1])
            start, total = i + 1, 0
            if bucket_cap_mb is None:
                cap = 25
    if start < len(numbers):
        buckets.append(numbers[start:])
    return buckets[::-1]
