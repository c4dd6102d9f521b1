# misconception: short_group
from contextlib import nullcontext

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_


def amp_step(ddp, optimizer, scaler, scheduler, micro_batches, every, max_norm):
    weight = 1.0 / every
    optimizer.zero_grad()
    for i, (inputs, labels) in enumerate(micro_batches, 1):
        step_now = i % every == 0 or i == len(micro_batches)
        with nullcontext() if step_now else ddp.no_sync():
            with torch.autocast(inputs.device.type, dtype=torch.float16):
                outputs = ddp(inputs)
            loss = weight * cross_entropy(outputs.float(), labels)
            scaler.scale(loss).backward()
        if not step_now:
            continue
        scaler.unscale_(optimizer)
        clip_grad_norm_(ddp.parameters(), max_norm)
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        if scaler.get_scale() >= before:
            scheduler.step()
