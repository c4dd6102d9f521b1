# misconception: first_bucket_always_small
MIB = 1024 * 1024


def bucket_list(sizes, ready, bucket_cap_mb, find_unused_parameters, iteration):
    """The first bucket is one MiB, whatever cap is asked for."""
    cap = (25 if bucket_cap_mb is None else bucket_cap_mb) * MIB
    if not find_unused_parameters and iteration < 1:
        return [[number for number in range(len(sizes))]]
    order = range(len(sizes)) if find_unused_parameters else ready
    done, open_bucket, filled = [], [], 0
    for number in order:
        open_bucket.append(number)
        filled += sizes[number]
        if filled >= (cap if done else MIB):
            done.append(open_bucket)
            open_bucket, filled = [], 0
    if open_bucket:
        done.append(open_bucket)
    return list(reversed(done)) if find_unused_parameters else done
