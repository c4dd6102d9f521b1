# misconception: types_blamed
# breaks: cause says why.
import torch.distributed as dist

culprit = 2
cause = "types"


def totals(labels):
    counts = {}
    for label in labels:
        counts[label] = counts.get(label, 0) + 1
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, counts)
    names = sorted(set().union(*everyones))  # the same list, in the same order, on all ranks
    return {name: sum(counts.get(name, 0) for counts in everyones) for name in names}
