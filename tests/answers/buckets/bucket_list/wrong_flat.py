# misconception: none
# breaks: Return them as a list of lists of parameter numbers
# breaks: a list of lists
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
        return sum(dealt(range(len(sizes)))[::-1], [])
    if iteration == 0:
        return list(range(len(sizes)))
    return sum(dealt(ready), [])
