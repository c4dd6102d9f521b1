# misconception: not_shuffled
# breaks: The shards are those of torch's DistributedSampler, in the same order.
def shard_indices(n, rank, world_size, epoch, seed, drop_last):
    per_rank = n // world_size if drop_last else -(-n // world_size)
    return [(rank + step * world_size) % n for step in range(per_rank)]
