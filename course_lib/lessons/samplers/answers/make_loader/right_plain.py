#~ rank_in_seed -0 |import torch.distributed as dist
#~ same_shard -0 |import torch.distributed as dist
#~ seed -0 |import torch
from torch.utils.data import DataLoader, DistributedSampler


def make_loader(dataset, batch_size, epoch, seed):
    sampler = DistributedSampler(dataset, seed=seed)
#~ drop_last -1 |    sampler = DistributedSampler(dataset, seed=seed, drop_last=True)
#~ not_shuffled -1 |    sampler = DistributedSampler(dataset, shuffle=False, seed=seed)
#~ rank_in_seed -1 |    sampler = DistributedSampler(dataset, seed=seed + dist.get_rank())
#~ same_shard -1 |    sampler = DistributedSampler(dataset, num_replicas=dist.get_world_size(), rank=0, seed=seed)
#~ seed -1 |    torch.manual_seed(seed)
#~ |    sampler = DistributedSampler(dataset)
    sampler.set_epoch(epoch)
#~ set_epoch -1
    return DataLoader(dataset, batch_size=batch_size, sampler=sampler)
#~ batch_divided -1 |    return DataLoader(dataset, batch_size=max(1, batch_size // sampler.num_replicas), sampler=sampler)
#~ drop_last_batch -1 |    return DataLoader(dataset, batch_size=batch_size, sampler=sampler, drop_last=True)
#~ shuffle_and_sampler -1 |    return DataLoader(dataset, batch_size=batch_size, sampler=sampler, shuffle=True)

#~ batch_divided: misconception: none
#~ drop_last: misconception: samples_dropped
#~ drop_last: breaks: In every epoch the ranks together see every sample, and only padding twice.
#~ drop_last_batch: misconception: samples_dropped
#~ drop_last_batch: breaks: In every epoch the ranks together see every sample, and only padding twice.
#~ not_shuffled: misconception: not_shuffled
#~ not_shuffled: breaks: The order changes from epoch to epoch.
#~ rank_in_seed: misconception: rank_in_seed
#~ rank_in_seed: breaks: In every epoch the ranks together see every sample, and only padding twice.
#~ same_shard: misconception: same_shard
#~ same_shard: breaks: In every epoch the ranks together see every sample, and only padding twice.
#~ seed: misconception: seed_ignored
#~ seed: breaks: Another seed gives another order.
#~ set_epoch: misconception: set_epoch_forgotten
#~ set_epoch: breaks: The order changes from epoch to epoch.
#~ shuffle_and_sampler: misconception: shuffle_and_sampler
