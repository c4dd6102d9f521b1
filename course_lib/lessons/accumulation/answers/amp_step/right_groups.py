from contextlib import nullcontext

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_


def amp_step(ddp, optimizer, scaler, scheduler, micro_batches, every, max_norm):
    for first in range(0, len(micro_batches), every):
        group = micro_batches[first : first + every]
#~ dropped -1 |        group = micro_batches[first : first + every]
#~ |        if len(group) < every:
#~ |            break
        optimizer.zero_grad()
#~ never_zeroed -1
        for number, (inputs, labels) in enumerate(group, 1):
#~ zero_inside -1 |        for number, (inputs, labels) in enumerate(group, 1):
#~ |            optimizer.zero_grad()
            with nullcontext() if number == len(group) else ddp.no_sync():
#~ all_local -1 |            with ddp.no_sync():
#~ no_no_sync -1 |            with nullcontext():
                with torch.autocast("cpu", torch.float16):
#~ no_autocast -1 |                with nullcontext():
#~ bfloat -1 |                with torch.autocast("cpu"):
                    loss = cross_entropy(ddp(inputs), labels) / len(group)
#~ undivided -1 |                    loss = cross_entropy(ddp(inputs), labels)
#~ by_every -1 |                    loss = cross_entropy(ddp(inputs), labels) / every
                scaler.scale(loss).backward()
#~ unscale_inside -1 |                scaler.scale(loss).backward()
#~ |                scaler.unscale_(optimizer)
        scaler.unscale_(optimizer)
#~ unscale_inside -1
#~ no_unscale -1
#~ neither_unscale_nor_update -1
#~ clip_first -1
        clip_grad_norm_(ddp.parameters(), max_norm)
#~ clip_first -1 |        clip_grad_norm_(ddp.parameters(), max_norm)
#~ |        scaler.unscale_(optimizer)
#~ no_clip -1
        scaler.step(optimizer)
#~ own_step -1 |        optimizer.step()
        before = scaler.get_scale()
        scaler.update()
#~ no_update -1
#~ neither_unscale_nor_update -1
        if scaler.get_scale() >= before:
#~ same -1 |        if scaler.get_scale() == before:
            scheduler.step()
#~ always -2 |        scheduler.step()
#~ no_schedule -2

#~ all_local: misconception: never_reduced
#~ all_local: breaks: In the end all ranks have the same weights.
#~ always: misconception: schedule
#~ always: breaks: A step with an overflow on one rank is skipped by all: the scale is halved, and the scheduler waits.
#~ bfloat: misconception: full_precision
#~ by_every: misconception: short_group
#~ clip_first: misconception: clipped_scaled
#~ dropped: misconception: left_over
#~ dropped: breaks: Every group ends with one step of the optimizer, also one that is not full.
#~ neither_unscale_nor_update: misconception: not_updated
#~ never_zeroed: misconception: none
#~ no_autocast: misconception: full_precision
#~ no_autocast: breaks: The model runs in float16.
#~ no_clip: misconception: not_clipped
#~ no_no_sync: misconception: reduced_each_time
#~ no_no_sync: breaks: Gradients are sent once for each group.
#~ no_schedule: misconception: schedule
#~ no_unscale: misconception: clipped_scaled
#~ no_update: misconception: not_updated
#~ own_step: misconception: not_by_scaler
#~ same: misconception: schedule
#~ same: breaks: The scheduler makes a step for each step of the optimizer.
#~ undivided: misconception: not_divided
#~ undivided: breaks: Each step gets the gradient of one process that takes all samples of the group at once, clipped.
#~ unscale_inside: misconception: unscaled_inside
#~ zero_inside: misconception: zeroed_inside
