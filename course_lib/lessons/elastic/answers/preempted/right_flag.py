import os
import signal
import sys

import torch
import torch.distributed as dist


def preempted(train_step, save, first, steps):
    asked = []
    signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
#~ exits -1 |    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
#~ exits_hard -1 |    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))
#~ no_handler -1
#~ rank_0_handles -1 |    if dist.get_rank() == 0:
#~ |        signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    step, leave = first, torch.zeros(1)
#~ saves_in_handler -1 |    step, leave = first, torch.zeros(1)
#~ |    signal.signal(signal.SIGTERM, lambda number, frame: (save(step), asked.append(number)))
#~ saves_and_exits -1 |    step, leave = first, torch.zeros(1)
#~ |    signal.signal(signal.SIGTERM, lambda number, frame: (save(step), sys.exit(0)))
    while step < steps and not leave.item():
#~ goes_on -1 |    while step < steps:
#~ decides_alone -1 |    while step < steps and not asked:
#~ own_flag_too -1 |    while step < steps and not leave.item() and not asked:
#~ from_0 -1 |    step = 0
#~ |    while step < steps and not leave.item():
#~ one_short -1 |    while step < steps - 1 and not leave.item():
        train_step(step)
        step += 1
        leave = torch.tensor([float(len(asked))])
        dist.all_reduce(leave, op=dist.ReduceOp.MAX)
#~ rank_0_tells -1 |        dist.broadcast(leave, src=0)
#~ decides_alone -1
#~ all_must_be_asked -1 |        dist.all_reduce(leave, op=dist.ReduceOp.MIN)
#~ one_saves -0 |        if dist.get_rank():
#~ |            save = lambda step: None
#~ not_saved -0 |    if step < steps:
#~ |        return 0 if asked else 75
#~ saves_when_asked -0 |        if leave.item():
#~ |            save(step)
    save(step)
#~ saves_next -1 |    save(step + 1)
    return 0 if step == steps or asked else 75
#~ returns_nothing -1
#~ returns_step -1 |    return step
#~ done_for_all -1 |    return 0
#~ again_for_all -1 |    return 75 if leave.item() else 0

#~ all_must_be_asked: misconception: goes_on
#~ all_must_be_asked: breaks: When any rank has got a SIGTERM, all leave after that step or the next one.
#~ decides_alone: misconception: decides_alone
#~ exits: misconception: exits_at_once
#~ exits: breaks: On every rank it returns.
#~ exits_hard: misconception: exits_at_once
#~ from_0: misconception: none
#~ from_0: breaks: It calls train_step once for each step, beginning with `first`.
#~ goes_on: misconception: goes_on
#~ no_handler: misconception: exits_at_once
#~ not_saved: misconception: not_saved
#~ not_saved: breaks: Every rank saves once, when its last step is over.
#~ one_saves: misconception: one_saves
#~ one_short: misconception: none
#~ one_short: breaks: As long as nobody gets a SIGTERM, it goes on.
#~ own_flag_too: misconception: decides_alone
#~ rank_0_handles: misconception: only_rank_0_listens
#~ rank_0_tells: misconception: only_rank_0_listens
#~ again_for_all: misconception: none
#~ done_for_all: misconception: taken_for_done
#~ returns_nothing: misconception: none
#~ returns_nothing: breaks: It returns the exit code that its agent understands: 75 on a rank that nobody has asked, if steps are missing.
#~ returns_step: misconception: none
#~ saves_and_exits: misconceptions: saves_in_handler, exits_at_once
#~ saves_in_handler: misconception: saves_in_handler
#~ saves_next: misconception: none
#~ saves_next: breaks: What it has saved is what one process has after so many steps.
#~ saves_when_asked: misconception: none
