# misconception: none
# breaks: The counts are right, for all labels that any rank has seen.
# breaks: Every rank returns the counts of all labels
import torch.distributed as dist

culprit = 2
cause = "order"


def totals(labels):
    counts = {}
    for label in labels:
        counts[label] = counts.get(label, 0) + 1
    everyones = [None] * dist.get_world_size()
    dist.gather_object(counts, everyones if dist.get_rank() == 0 else None)
    if dist.get_rank() != 0:
        return counts
    names = sorted(set().union(*everyones))  # the same list, in the same order, on all ranks
    return {name: sum(counts.get(name, 0) for counts in everyones) for name in names}
