# misconception: closed_when_exceeded
# breaks: The buckets are those of DDP, in the order in which it sends them.
def bucket_list(sizes, ready, bucket_cap_mb, find_unused_parameters, iteration):
    mib = 1 << 20
    limits = [mib, 25 * mib] if bucket_cap_mb is None else [bucket_cap_mb * mib]

    def deal(order):
        done, bucket = [], []
        for i in order:
            bucket.append(i)
            if sum(sizes[j] for j in bucket) > limits[min(len(done), len(limits) - 1)]:
                done.append(bucket)
                bucket = []
        return done + ([bucket] if bucket else [])

    if find_unused_parameters:
        return deal(range(len(sizes)))[::-1]
    return [list(range(len(sizes)))] if iteration == 0 else deal(ready)
