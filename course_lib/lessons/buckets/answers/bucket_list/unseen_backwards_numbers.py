# misconception: unused_dealt_from_the_end
def bucket_list(sizes, ready, bucket_cap_mb, find_unused_parameters, iteration):
    numbers = list(range(len(sizes)))
    if find_unused_parameters:
        order = numbers[::-1]
    elif iteration:
        order = ready
    else:
        return [numbers]
    caps = [1, 25] if bucket_cap_mb is None else [bucket_cap_mb] * 2
    buckets, bucket, room = [], [], caps[0] * 2**20
    for number in order:
        bucket.append(number)
        room -= sizes[number]
        if room <= 0:
            buckets.append(bucket)
            bucket, room = [], caps[1] * 2**20
    if bucket:
        buckets.append(bucket)
    return buckets
