import torch.distributed as dist

culprit = 1
cause = "died"


def mean_of_all(files, read):
    sums = [(sum(numbers := read(file).tolist()), len(numbers)) for file in files]
#~ still_killed -1 |    parts = [read(file) for file in files]
#~ |    sums = [(part.sum().item(), len(part)) for part in parts]
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, sums)
    pairs = [pair for part in everyones for pair in part]
#~ of_files -1 |    pairs = [(total / count, 1) for part in everyones for total, count in part]
#~ of_ranks -1 |    pairs = [(sum(total for total, _ in part) / sum(count for _, count in part) if part else 0, 1) for part in everyones]
#~ own -1 |    pairs = sums or [(0, 1)]
    return sum(total for total, _ in pairs) / sum(count for _, count in pairs)

#~ of_files: misconception: mean_of_means
#~ of_files: breaks: Every rank returns the mean of all numbers in all files.
#~ of_ranks: misconception: mean_of_means
#~ of_ranks: breaks: Every rank returns the mean of all numbers in all files.
#~ own: misconception: none
#~ own: breaks: Every rank returns the mean of all numbers in all files.
#~ still_killed: misconception: still_killed
