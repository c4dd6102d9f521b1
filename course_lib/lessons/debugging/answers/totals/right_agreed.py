import torch
import torch.distributed as dist

culprit = 2
cause = "order"
#~ other_cause -1 |cause = "network"


def totals(labels):
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, sorted(set(labels)))
#~ sorted -2
#~ unrepaired -2
    counts = {}
    for label in sorted({label for part in everyones for label in part}):
#~ rank_0s -1 |    for label in everyones[0]:
        count = torch.tensor(labels.count(label))
#~ sorted -2 |    for label in labels:
#~ |        counts[label] = counts.get(label, 0) + 1
#~ |    for label in sorted(counts):
#~ |        count = torch.tensor(counts[label])
#~ unrepaired -2 |    for label in labels:
#~ |        counts[label] = counts.get(label, 0) + 1
#~ |    for label in counts:
#~ |        count = torch.tensor(counts[label])
        dist.all_reduce(count)
        counts[label] = count.item()
    return counts

#~ other_cause: misconception: other_cause
#~ other_cause: breaks: cause says why.
#~ rank_0s: misconception: own_labels
#~ sorted: misconception: own_labels
#~ unrepaired: misconception: still_mixed
#~ unrepaired: breaks: The counts are right, for all labels that any rank has seen.
