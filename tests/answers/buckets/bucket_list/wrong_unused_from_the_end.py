# misconception: unused_dealt_from_the_end
# breaks: The buckets are those of DDP, in the order in which it sends them.
def bucket_list(sizes, ready, bucket_cap_mb, find_unused_parameters, iteration):
    mib = 2**20
    limits = [mib, 25 * mib] if bucket_cap_mb is None else [bucket_cap_mb * mib]

    def dealt(order):
        buckets = [[]]
        for number in order:
            limit = limits[min(len(buckets), len(limits)) - 1]
            if sum(sizes[other] for other in buckets[-1]) >= limit:
                buckets.append([])
            buckets[-1].append(number)
        return buckets

    if find_unused_parameters:
        return dealt(range(len(sizes))[::-1])
    if iteration == 0:
        return [list(range(len(sizes)))]
    return dealt(ready)
