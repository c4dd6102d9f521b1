# One loop that counts; a step that is not made shows in the norm, which is the same on all ranks.
import torch
from torch.nn.functional import cross_entropy


def amp_step(ddp, optimizer, scaler, scheduler, micro_batches, every, max_norm):
    total = len(micro_batches)
    optimizer.zero_grad()
    for i, (x, y) in enumerate(micro_batches):
        first = i - i % every
        size = min(every, total - first)
        last = i == first + size - 1
        ddp.require_backward_grad_sync = last
        with torch.amp.autocast(device_type=x.device.type, dtype=torch.float16):
            loss = cross_entropy(ddp(x), y)
#~ skips_its_own -1 |            loss = cross_entropy(ddp(x), y)
#~ |        if not loss.isfinite():
#~ |            continue
        scaler.scale(loss / size).backward()
#~ unscaled_loss -1 |        (loss / size).backward()
#~ update_inside -1 |        scaler.scale(loss / size).backward()
#~ |        scaler.unscale_(optimizer)
#~ |        scaler.update()
#~ schedule_inside -1 |        scaler.scale(loss / size).backward()
#~ |        scheduler.step()
        if last:
#~ only_full -1 |        if (i + 1) % every == 0:
            scaler.unscale_(optimizer)
            norm = torch.nn.utils.clip_grad_norm_(ddp.parameters(), max_norm)
            scaler.step(optimizer)
            scaler.update()
#~ same_scale -1 |            scaler.update(1024.0)
#~ if_finite -2 |            if norm.isfinite():
#~ |                scaler.step(optimizer)
#~ |                scaler.update()
            if norm.isfinite():
                scheduler.step()
#~ schedule_inside -2
            optimizer.zero_grad()

#~ if_finite: misconception: not_updated
#~ only_full: misconception: left_over
#~ same_scale: misconception: not_updated
#~ same_scale: breaks: The scale is adapted once for each group: good steps may double it.
#~ schedule_inside: misconception: schedule
#~ skips_its_own: misconception: skipped_alone
#~ unscaled_loss: misconception: none
#~ update_inside: misconception: unscaled_inside
