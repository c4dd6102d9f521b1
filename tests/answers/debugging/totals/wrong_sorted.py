# misconception: own_labels
# breaks: all labels that *any* rank has seen
# breaks: A rank may have seen fewer kinds than the others.
import torch
import torch.distributed as dist

culprit = 2
cause = "order"


def totals(labels):
    counts = {}
    for label in labels:
        counts[label] = counts.get(label, 0) + 1
    for label in sorted(counts):
        count = torch.tensor(counts[label])
        dist.all_reduce(count)
        counts[label] = count.item()
    return counts
