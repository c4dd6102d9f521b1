# misconception: none
def bucket_list(sizes, ready, bucket_cap_mb, find_unused_parameters, iteration):
    numbers = list(range(len(sizes)))
    if iteration == 0 and not find_unused_parameters:
        return [numbers]
    caps = (1, 25) if bucket_cap_mb is None else (bucket_cap_mb, bucket_cap_mb)
    buckets = []
    current = []
    for number in numbers if find_unused_parameters else ready:
        current = current + [number]
        if sum(sizes[k] for k in current) >= caps[len(buckets) > 0] * 1024 * 1024:
            buckets.append(current)
            current = []
    if current:
        buckets.append(current)
    if find_unused_parameters:
        buckets = [bucket[::-1] for bucket in buckets[::-1]]
    return buckets
