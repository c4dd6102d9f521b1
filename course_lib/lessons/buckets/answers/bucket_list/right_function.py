def bucket_list(sizes, ready, bucket_cap_mb, find_unused_parameters, iteration):
    mib = 2**20
#~ decimal -1 |    mib = 10**6
    limits = [mib, 25 * mib] if bucket_cap_mb is None else [bucket_cap_mb * mib]
#~ default_is_25 -1 |    limits = [25 * mib] if bucket_cap_mb is None else [bucket_cap_mb * mib]
#~ first_is_small -1 |    limits = [mib, (bucket_cap_mb or 25) * mib]

    def dealt(order):
        buckets = [[]]
        for number in order:
            limit = limits[min(len(buckets), len(limits)) - 1]
            if sum(sizes[other] for other in buckets[-1]) >= limit:
#~ below_the_cap -1 |            if buckets[-1] and sum(sizes[other] for other in [*buckets[-1], number]) > limit:
#~ when_exceeded_and_from_the_end -1 |            if sum(sizes[other] for other in buckets[-1]) > limit:
                buckets.append([])
            buckets[-1].append(number)
        return buckets

    if find_unused_parameters:
        return dealt(range(len(sizes)))[::-1]
#~ flat -1 |        return sum(dealt(range(len(sizes)))[::-1], [])
#~ unused_from_the_end -1 |        return dealt(range(len(sizes))[::-1])
#~ unused_rebuilt -2
#~ unused_one_bucket_first -2 |    if find_unused_parameters and iteration > 0:
#~ |        return dealt(range(len(sizes)))[::-1]
#~ unused_straight -1 |        return dealt(range(len(sizes)))
#~ when_exceeded_and_from_the_end -1 |        return dealt(range(len(sizes))[::-1])
    if iteration == 0:
#~ never_rebuilt -1 |    if True:
#~ rebuilt_late -1 |    if iteration <= 1:
        return [list(range(len(sizes)))]
#~ iteration_ignored -2
#~ unused_rebuilt -1 |        return dealt(range(len(sizes)))[::-1] if find_unused_parameters else [list(range(len(sizes)))]
    return dealt(ready)
#~ flat -2 |        return list(range(len(sizes)))
#~ |    return sum(dealt(ready), [])
#~ reversed -1 |    return dealt(range(len(sizes))[::-1])
#~ sorted_inside -1 |    return [sorted(bucket) for bucket in dealt(ready)]

#~ below_the_cap: misconception: cap_never_exceeded
#~ below_the_cap: breaks: The buckets are those of DDP, in the order in which it sends them.
#~ decimal: misconception: decimal
#~ default_is_25: misconception: first_bucket_like_the_others
#~ default_is_25: breaks: The buckets are those of DDP, in the order in which it sends them.
#~ first_is_small: misconception: first_bucket_always_small
#~ first_is_small: breaks: The buckets are those of DDP, in the order in which it sends them.
#~ flat: misconception: none
#~ iteration_ignored: misconception: buckets_from_the_start
#~ iteration_ignored: breaks: The buckets are those of DDP, in the order in which it sends them.
#~ never_rebuilt: misconception: never_rebuilt
#~ never_rebuilt: breaks: The buckets are those of DDP, in the order in which it sends them.
#~ rebuilt_late: misconception: never_rebuilt
#~ reversed: misconception: reverse_order
#~ reversed: breaks: The buckets are those of DDP, in the order in which it sends them.
#~ sorted_inside: misconception: none
#~ sorted_inside: breaks: The buckets are those of DDP, in the order in which it sends them.
#~ unused_from_the_end: misconception: unused_dealt_from_the_end
#~ unused_from_the_end: breaks: The buckets are those of DDP, in the order in which it sends them.
#~ unused_one_bucket_first: misconception: none
#~ unused_rebuilt: misconception: unused_rebuilt
#~ unused_rebuilt: breaks: The buckets are those of DDP, in the order in which it sends them.
#~ unused_straight: misconception: unused_not_reversed
#~ unused_straight: breaks: The buckets are those of DDP, in the order in which it sends them.
#~ when_exceeded_and_from_the_end: misconceptions: closed_when_exceeded, unused_dealt_from_the_end
#~ when_exceeded_and_from_the_end: breaks: The buckets are those of DDP, in the order in which it sends them.
