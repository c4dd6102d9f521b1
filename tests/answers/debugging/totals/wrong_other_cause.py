# misconception: other_cause
# breaks: cause says why.
import torch
import torch.distributed as dist

culprit = 2
cause = "network"


def totals(labels):
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, sorted(set(labels)))
    counts = {}
    for label in sorted({label for part in everyones for label in part}):
        count = torch.tensor(labels.count(label))
        dist.all_reduce(count)
        counts[label] = count.item()
    return counts
