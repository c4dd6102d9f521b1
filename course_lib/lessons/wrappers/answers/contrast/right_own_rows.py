import torch
import torch.distributed as dist
from torch.distributed.nn.functional import all_gather
from torch.nn.functional import cross_entropy, pad


def everyones(x, sizes):
    parts = all_gather(pad(x, (0, 0, 0, max(sizes) - len(x))))
    return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])
#~ keys_cut -1 |    return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)]).detach()
#~ own_slice -1 |    parts = [part[:size].detach() for part, size in zip(parts, sizes, strict=True)]
#~ |    parts[dist.get_rank()] = x
#~ |    return torch.cat(parts)
#~ as_in_lesson -2 |    return torch.cat(all_gather(x))
#~ padded_keys -1 |    return torch.cat(parts)


def contrast(one, other, temperature, sizes):
    rank = dist.get_rank()
    places = sum(sizes[:rank]) + torch.arange(len(one))
#~ at_zero -1 |    places = torch.arange(len(one))
#~ rank_times_size -1 |    places = rank * len(one) + torch.arange(len(one))
#~ padded_keys -1 |    places = rank * max(sizes) + torch.arange(len(one))
    rows = cross_entropy(one @ everyones(other, sizes).T / temperature, places, reduction="sum")
    columns = cross_entropy(other @ everyones(one, sizes).T / temperature, places, reduction="sum")
    return (rows + columns) / 2 / sum(sizes) * len(sizes)  # DDP divides by the number of ranks
#~ no_ranks -1 |    return (rows + columns) / 2 / sum(sizes)
#~ own_mean -1 |    return (rows + columns) / 2 / len(one)
#~ sums -1 |    return (rows + columns) / 2

#~ as_in_lesson: misconception: equal_sizes
#~ at_zero: misconception: wrong_positives
#~ keys_cut: misconception: cut
#~ no_ranks: misconception: divided
#~ own_mean: misconception: mean_of_means
#~ own_slice: misconception: not_from_others
#~ padded_keys: misconception: padding_kept
#~ rank_times_size: misconception: wrong_positives
#~ sums: misconception: none
