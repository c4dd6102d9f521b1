import torch.distributed as dist

culprit = 2
#~ witness -1 |culprit = 0
cause = "order"
#~ types -1 |cause = "types"


def totals(labels):
    counts = {}
    for label in labels:
        counts[label] = counts.get(label, 0) + 1
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, counts)
#~ only_rank_0 -1 |    dist.gather_object(counts, everyones if dist.get_rank() == 0 else None)
#~ |    if dist.get_rank() != 0:
#~ |        return counts
    names = sorted(set().union(*everyones))  # the same list, in the same order, on all ranks
    return {name: sum(counts.get(name, 0) for counts in everyones) for name in names}

#~ only_rank_0: misconception: none
#~ only_rank_0: breaks: The counts are right, for all labels that any rank has seen.
#~ types: misconception: types_blamed
#~ types: breaks: cause says why.
#~ witness: misconception: witness
#~ witness: breaks: culprit is the rank that does something else than the others.
