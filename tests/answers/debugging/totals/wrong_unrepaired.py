# misconception: still_mixed
# breaks: The counts are right, for all labels that any rank has seen.
# breaks: How often each label was seen, by all ranks together.
import torch
import torch.distributed as dist

culprit = 2
cause = "order"


def totals(labels):
    counts = {}
    for label in labels:
        counts[label] = counts.get(label, 0) + 1
    for label in counts:
        count = torch.tensor(counts[label])
        dist.all_reduce(count)
        counts[label] = count.item()
    return counts
