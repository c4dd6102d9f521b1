import torch
import torch.distributed as dist

culprit = 1
#~ witness -1 |culprit = 2
cause = "died"
#~ network -1 |cause = "network"
#~ other_cause -1 |cause = "order"


def mean_of_all(files, read):
    total, count = torch.zeros(1), torch.zeros(1)
    for file in files:
        numbers = read(file)
        total += numbers.sum()
        count += len(numbers)
        del numbers
    dist.all_reduce(total)
    dist.all_reduce(count)
    return (total / count).item()

#~ network: misconception: network_blamed
#~ network: breaks: cause says why.
#~ other_cause: misconception: other_cause
#~ other_cause: breaks: cause says why.
#~ witness: misconception: witness
#~ witness: breaks: culprit is the rank that does something else than the others.
