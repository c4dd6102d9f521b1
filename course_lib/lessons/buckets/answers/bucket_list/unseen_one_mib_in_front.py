# misconception: first_bucket_always_small
def bucket_list(sizes, ready, bucket_cap_mb, find_unused_parameters, iteration):
    if iteration == 0 and not find_unused_parameters:
        return [list(range(len(sizes)))]
    later = 25 if bucket_cap_mb is None else bucket_cap_mb
    todo = list(range(len(sizes))) if find_unused_parameters else list(ready)
    buckets = []
    while todo:
        limit = (later if buckets else min(1, later)) * 2**20
        bucket = [todo.pop(0)]
        while todo and sum(map(sizes.__getitem__, bucket)) < limit:
            bucket.append(todo.pop(0))
        buckets.append(bucket)
    return buckets[::-1] if find_unused_parameters else buckets
