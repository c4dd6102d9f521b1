# misconception: not_updated
from contextlib import nullcontext

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_


def amp_step(ddp, optimizer, scaler, scheduler, micro_batches, every, max_norm):
    groups = [micro_batches[i : i + every] for i in range(0, len(micro_batches), every)]
    for group in groups:
        optimizer.zero_grad()
        todo = len(group)
        for inputs, labels in group:
            todo -= 1
            with ddp.no_sync() if todo else nullcontext():
                with torch.autocast(inputs.device.type, dtype=torch.float16):
                    outputs = ddp(inputs)
                    loss = cross_entropy(outputs.float(), labels)
                scaler.scale(loss / len(group)).backward()

        scaler.unscale_(optimizer)
        norm = clip_grad_norm_(ddp.parameters(), max_norm)
        if not norm.isfinite():
            continue
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
