# misconception: full_precision
from contextlib import nullcontext

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_


def amp_step(ddp, optimizer, scaler, scheduler, micro_batches, every, max_norm):
    device = next(ddp.parameters()).device
    for start in range(0, len(micro_batches), every):
        group = micro_batches[start : start + every]
        optimizer.zero_grad()
        for k, (inputs, labels) in enumerate(group):
            sync = nullcontext() if k == len(group) - 1 else ddp.no_sync()
            with sync:
                with torch.autocast(device.type):
                    loss = cross_entropy(ddp(inputs).float(), labels)
                scaler.scale(loss / len(group)).backward()
        scaler.unscale_(optimizer)
        clip_grad_norm_(ddp.parameters(), max_norm)
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if before <= scaler.get_scale():
            scheduler.step()
