# misconception: reverse_order
def bucket_list(sizes, ready, bucket_cap_mb, find_unused_parameters, iteration):
    count = len(sizes)
    if find_unused_parameters:
        order = range(count)
    elif iteration == 0:
        return [list(range(count))]
    else:
        order = range(count - 1, -1, -1)  # backward goes from the last layer to the first

    buckets, full = [[]], 0
    for i in order:
        if bucket_cap_mb is not None:
            cap = bucket_cap_mb
        else:
            cap = 1 if len(buckets) == 1 else 25
        buckets[-1].append(i)
        full += sizes[i]
        if full >= cap * 1048576:
            buckets.append([])
            full = 0
    if not buckets[-1]:
        buckets.pop()
    if find_unused_parameters:
        buckets = buckets[::-1]
    return buckets
