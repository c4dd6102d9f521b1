# misconception: unused_rebuilt
def split(order, sizes, bucket_cap_mb):
    buckets = []
    open_bucket = []
    for number in order:
        open_bucket.append(number)
        if bucket_cap_mb is None:
            cap = 25 if buckets else 1
        else:
            cap = bucket_cap_mb
        if sum(sizes[i] for i in open_bucket) >= cap * 2**20:
            buckets.append(open_bucket)
            open_bucket = []
    return buckets + ([open_bucket] if open_bucket else [])


def bucket_list(sizes, ready, bucket_cap_mb, find_unused_parameters, iteration):
    if iteration >= 1:
        return split(ready, sizes, bucket_cap_mb)
    if find_unused_parameters:
        return split(range(len(sizes)), sizes, bucket_cap_mb)[::-1]
    return [list(range(len(sizes)))]
