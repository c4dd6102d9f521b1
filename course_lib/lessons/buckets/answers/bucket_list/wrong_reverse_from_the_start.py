# misconceptions: buckets_from_the_start, reverse_order
# breaks: The buckets are those of DDP, in the order in which it sends them.
def bucket_list(sizes, ready, bucket_cap_mb, find_unused_parameters, iteration):
    """As the folklore has it: reverse registration order, 1 MiB first, then 25."""
    limits = [1 << 20, 25 << 20] if bucket_cap_mb is None else [bucket_cap_mb * (1 << 20)]
    buckets = [[]]
    for i in reversed(range(len(sizes))):
        limit = limits[min(len(buckets), len(limits)) - 1]
        if sum(sizes[j] for j in buckets[-1]) >= limit:
            buckets.append([])
        buckets[-1].append(i)
    return buckets
