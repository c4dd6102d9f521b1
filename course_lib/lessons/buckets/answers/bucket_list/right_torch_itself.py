# The function of torch's own that deals parameters out to buckets.
import sys

import torch
import torch.distributed as dist


def bucket_list(sizes, ready, bucket_cap_mb, find_unused_parameters, iteration):
    limits = [1 << 20, 25 << 20] if bucket_cap_mb is None else [int(bucket_cap_mb * (1 << 20))]
    tensors = [torch.empty(size // 4) for size in sizes]
    if find_unused_parameters or iteration == 0:
        limits = limits if find_unused_parameters else [sys.maxsize]
        buckets, _ = dist._compute_bucket_assignment_by_size(tensors, limits, [False] * len(sizes))
        return buckets[::-1]
    tensors = [tensors[i] for i in ready]
    return dist._compute_bucket_assignment_by_size(tensors, limits, [False] * len(sizes), ready)[0]
