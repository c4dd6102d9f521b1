# misconception: zeroed_inside
from contextlib import nullcontext

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_


def amp_step(ddp, optimizer, scaler, scheduler, micro_batches, every, max_norm):
    for start in range(0, len(micro_batches), every):
        group = micro_batches[start : start + every]
        for k, (inputs, labels) in enumerate(group):
            optimizer.zero_grad()
            last = k + 1 == len(group)
            with nullcontext() if last else ddp.no_sync():
                with torch.autocast(inputs.device.type, dtype=torch.float16):
                    logits = ddp(inputs)
                loss = cross_entropy(logits.float(), labels)
                scaler.scale(loss / len(group)).backward()
        scaler.unscale_(optimizer)
        clip_grad_norm_(ddp.parameters(), max_norm)
        scaler.step(optimizer)
        scale = scaler.get_scale()
        scaler.update()
        if scaler.get_scale() >= scale:
            scheduler.step()
