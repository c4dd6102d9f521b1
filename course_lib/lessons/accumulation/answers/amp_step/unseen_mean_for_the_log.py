# misconception: not_divided
from contextlib import nullcontext

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_


def amp_step(ddp, optimizer, scaler, scheduler, micro_batches, every, max_norm):
    history = []
    for start in range(0, len(micro_batches), every):
        group = micro_batches[start : start + every]
        running = 0.0
        optimizer.zero_grad()
        for k, (inputs, labels) in enumerate(group):
            with ddp.no_sync() if k < len(group) - 1 else nullcontext():
                with torch.autocast(inputs.device.type, dtype=torch.float16):
                    outputs = ddp(inputs)
                loss = cross_entropy(outputs.float(), labels)
                scaler.scale(loss).backward()
            running += loss.item() / len(group)
        history.append(running)

        scaler.unscale_(optimizer)
        clip_grad_norm_(ddp.parameters(), max_norm)
        scaler.step(optimizer)
        before = scaler.get_scale()
        scaler.update()
        if scaler.get_scale() >= before:
            scheduler.step()
    return history
