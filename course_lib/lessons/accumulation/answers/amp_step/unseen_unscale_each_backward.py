# misconception: unscaled_inside
import contextlib

import torch
import torch.nn.functional as F
from torch.nn.utils import clip_grad_norm_


def amp_step(ddp, optimizer, scaler, scheduler, micro_batches, every, max_norm):
    total = len(micro_batches)
    optimizer.zero_grad()
    in_group = 0
    for i, (x, y) in enumerate(micro_batches):
        if in_group == 0:
            size = min(every, total - i)
        in_group += 1
        full = in_group == size

        context = contextlib.nullcontext() if full else ddp.no_sync()
        with context:
            with torch.autocast(device_type=x.device.type, dtype=torch.float16):
                prediction = ddp(x)
            loss = F.cross_entropy(prediction.float(), y) / size
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)

        if full:
            clip_grad_norm_(ddp.parameters(), max_norm)
            scaler.step(optimizer)
            scale = scaler.get_scale()
            scaler.update()
            if scaler.get_scale() >= scale:
                scheduler.step()
            optimizer.zero_grad()
            in_group = 0
