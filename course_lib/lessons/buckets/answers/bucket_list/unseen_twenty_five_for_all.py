# misconception: first_bucket_like_the_others
def bucket_list(sizes, ready, bucket_cap_mb, find_unused_parameters, iteration):
    cap = (25 if bucket_cap_mb is None else bucket_cap_mb) * 1024**2
    if find_unused_parameters:
        order = range(len(sizes))
    elif iteration > 0:
        order = ready
    else:
        return [list(range(len(sizes)))]

    def fill():
        bucket, size = [], 0
        for number in order:
            bucket.append(number)
            size += sizes[number]
            if size >= cap:
                yield bucket
                bucket, size = [], 0
        if bucket:
            yield bucket

    buckets = list(fill())
    if find_unused_parameters:
        buckets.reverse()
    return buckets
