import math

#~ no_padding -2
#~ padding_once -2
import torch


def shard_indices(n, rank, world_size, epoch, seed, drop_last):
    generator = torch.Generator()
    generator.manual_seed(seed + epoch)
    order = torch.randperm(n, generator=generator).tolist()
#~ epoch -3 |    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed)).tolist()
#~ no_padding -3 |    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
#~ padding_once -3 |    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
#~ rank_in_seed -3 |    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed + epoch + rank)).tolist()
#~ seed -3 |    order = torch.randperm(n, generator=torch.Generator().manual_seed(epoch)).tolist()
    if drop_last:
        order = order[: n // world_size * world_size]
    else:
        total = math.ceil(n / world_size) * world_size
        order = (order * math.ceil(total / n))[:total]
#~ no_padding -3
#~ padding_once -2 |        order += order[: -n % world_size]
#~ pads_with_last -1 |        order += [order[-1]] * (total - n)
#~ uncut -5
    return order[rank::world_size]
#~ all_shards -1 |    return [order[one::world_size] for one in range(world_size)]
#~ blocks -9 |    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
#~ |    size = n // world_size if drop_last else math.ceil(n / world_size)
#~ |    order = (order * (size * world_size + 1))[: size * world_size]
#~ |    return order[rank * size : (rank + 1) * size]
#~ reversed -1 |    return order[rank::world_size][::-1]

#~ all_shards: misconception: none
#~ blocks: misconception: contiguous_blocks
#~ blocks: breaks: The shards are those of torch's DistributedSampler, in the same order.
#~ epoch: misconception: epoch_ignored
#~ epoch: breaks: The shards are those of torch's DistributedSampler, in the same order.
#~ no_padding: misconception: no_padding
#~ no_padding: breaks: Every rank gets the same number of samples.
#~ padding_once: misconception: padding_too_short
#~ padding_once: breaks: Every rank gets the same number of samples.
#~ pads_with_last: misconception: none
#~ pads_with_last: breaks: The shards are those of torch's DistributedSampler, in the same order.
#~ rank_in_seed: misconception: rank_in_seed
#~ rank_in_seed: breaks: The shards are those of torch's DistributedSampler, in the same order.
#~ reversed: misconception: none
#~ uncut: misconception: no_padding
#~ seed: misconception: seed_ignored
#~ seed: breaks: The shards are those of torch's DistributedSampler, in the same order.
