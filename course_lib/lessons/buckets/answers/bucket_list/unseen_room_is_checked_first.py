# misconception: cap_never_exceeded
def bucket_list(sizes, ready, bucket_cap_mb, find_unused_parameters, iteration):
    numbers = list(range(len(sizes)))
    if iteration == 0 and not find_unused_parameters:
        return [numbers]
    order = numbers if find_unused_parameters else ready
    first_cap, cap = (1, 25) if bucket_cap_mb is None else (bucket_cap_mb, bucket_cap_mb)
    buckets = [[]]
    for number in order:
        limit = (first_cap if len(buckets) == 1 else cap) * 1024 * 1024
        used = sum(sizes[i] for i in buckets[-1])
        if buckets[-1] and used + sizes[number] > limit:
            buckets.append([])
        buckets[-1].append(number)
    if find_unused_parameters:
        buckets.reverse()
    return buckets
