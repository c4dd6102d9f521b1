# One rule for each way, with the heads as sets.
HEADS = {"left": {"left"}, "right": {"right"}, "both": {"left", "right"}}


def choose(steps, weight_decay):
#~ rank_0 -0 |    steps = steps[:1]
#~ first_step -0 |    steps = [rank[:1] for rank in steps]
    if every_last_uses_all(steps):
#~ no_default -1 |    if False:
#~ together_and_decay -1 |    if every_last_uses_all(put_together(steps)):
#~ ranks_together -1 |    if every_last_uses_all(put_together(steps)):
#~ first_step_of_default -1 |    if every_last_uses_all([rank[:1] for rank in steps]):
#~ last_step -1 |    if every_last_uses_all([rank[:-1] for rank in steps]):
        return "default"
    if repeats_first_step(steps):
#~ no_static -1 |    if False:
#~ ranks_agree -1 |    if repeats_first_step(steps) and all(rank == steps[0] for rank in steps):
#~ decay_refuses_static -1 |    if weight_decay == 0 and repeats_first_step(steps):
#~ static_no_sync -1 |    if repeats_first_step([[step[-1:] for step in rank] for rank in steps]):
#~ static_together -1 |    if repeats_first_step(put_together(steps)):
#~ single_micro_batches -1 |    if repeats_first_step(steps) and all(len(step) == 1 for rank in steps for step in rank):
        return "static_graph"
    if weight_decay and any(idle_heads(step) for step in put_together(steps)[0]):
#~ decay_ignored -1 |    if False:
#~ together_and_decay -1 |    if False:
#~ decay_refuses -1 |    if weight_decay:
#~ decay_on_each_rank -1 |    if weight_decay and any(idle_heads(step) for rank in steps for step in rank):
#~ no_touch -1 |    if True:
        return "find_unused_parameters"
    return "touch"


def every_last_uses_all(steps):
    return all(HEADS[step[-1]] == {"left", "right"} for rank in steps for step in rank)


def repeats_first_step(steps):
    return all(len(rank[0]) == 1 and all(set(step) == set(rank[0]) for step in rank) for rank in steps)


def put_together(steps):
    """What all ranks together use, as the steps of a single one."""
    together = []
    for everyones in zip(*steps):
        together.append([])
        for micro_batch in zip(*everyones):
            used = set().union(*(HEADS[heads] for heads in micro_batch))
            together[-1].append("both" if len(used) == 2 else used.pop())
    return [together]


def idle_heads(step):
    return {"left", "right"} - set().union(*(HEADS[heads] for heads in step))


#~ decay_ignored: misconception: decay_ignored
#~ decay_ignored: breaks: Real ranks that train in that way have the weights of one process after each step.
#~ decay_on_each_rank: misconception: decay_forbids_touch
#~ decay_refuses: misconception: decay_forbids_touch
#~ decay_refuses_static: misconception: not_the_first
#~ first_step: misconception: first_step_only
#~ first_step_of_default: misconception: first_step_only
#~ last_step: misconception: last_step_left_out
#~ last_step: breaks: Real ranks that train in that way have the weights of one process after each step.
#~ no_default: misconception: not_the_first
#~ no_default: breaks: It is the first one of which this is true.
#~ no_static: misconception: not_the_first
#~ no_touch: misconception: not_the_first
#~ rank_0: misconception: rank_0_only
#~ ranks_agree: misconception: ranks_must_agree
#~ ranks_agree: breaks: It is the first one of which this is true.
#~ ranks_together: misconception: ranks_together
#~ ranks_together: breaks: Real ranks that train in that way have the weights of one process after each step.
#~ single_micro_batches: misconception: accumulation_forbids_static
#~ static_no_sync: misconception: static_in_no_sync
#~ static_together: misconception: ranks_together
#~ together_and_decay: misconceptions: ranks_together, decay_ignored
