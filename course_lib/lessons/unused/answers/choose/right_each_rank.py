# Looks at one rank after the other, and joins what they say.
from itertools import chain


def choose(steps, weight_decay):
    ranks = [of_rank(rank) for rank in steps]
    if all(rank["default"] for rank in ranks):
        return "default"
    if all(rank["static"] for rank in ranks):
#~ changing -1 |    if all(len(rank[0]) == 1 for rank in steps):
        return "static_graph"
    idle = [set.intersection(*(rank["idle"][number] for rank in ranks)) for number in range(len(steps[0]))]
#~ idle_at_the_end -1 |    idle = [set.intersection(*({"left", "right"} - ({rank[number][-1]} if rank[number][-1] != "both" else {"left", "right"}) for rank in steps)) for number in range(len(steps[0]))]
#~ idle_at_first -1 |    idle = [set.intersection(*(({"left", "right"} - {rank[number][0]}) if rank[number][0] != "both" else set() for rank in steps)) for number in range(len(steps[0]))]
#~ idle_in_all_steps -1 |    idle = [set.intersection(*(each for rank in ranks for each in rank["idle"]))]
    return "find_unused_parameters" if weight_decay > 0 and any(idle) else "touch"


def of_rank(rank):
    micro_batches = list(chain.from_iterable(rank))
    return {
        "default": {step[-1] for step in rank} == {"both"},
#~ each -1 |        "default": set(micro_batches) == {"both"},
#~ together -1 |        "default": all("both" in step or len(set(step)) == 2 for step in rank),
        "static": len(rank[0]) == 1 and len(set(micro_batches)) == 1,
#~ static_in_first -1 |        "static": len(set(micro_batches)) == 1,
        "idle": [{"left", "right"} - (set(step) if "both" not in step else {"left", "right"}) for step in rank],
    }


#~ changing: misconception: static_though_changing
#~ each: misconception: every_micro_batch
#~ idle_at_the_end: misconception: decay_forbids_touch
#~ idle_at_first: misconception: decay_forbids_touch
#~ idle_in_all_steps: misconception: decay_ignored
#~ static_in_first: misconception: static_in_no_sync
#~ together: misconception: micro_batches_together
