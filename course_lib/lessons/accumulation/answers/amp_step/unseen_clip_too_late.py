# misconception: not_clipped
from contextlib import nullcontext

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_


def amp_step(ddp, optimizer, scaler, scheduler, micro_batches, every, max_norm):
    for start in range(0, len(micro_batches), every):
        group = micro_batches[start : start + every]
        contexts = [ddp.no_sync] * (len(group) - 1) + [nullcontext]
        optimizer.zero_grad()
        for context, (inputs, labels) in zip(contexts, group):
            with context():
                with torch.autocast(inputs.device.type, dtype=torch.float16):
                    outputs = ddp(inputs)
                loss = cross_entropy(outputs.float(), labels) / len(group)
                scaler.scale(loss).backward()
        scale = scaler.get_scale()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        clip_grad_norm_(ddp.parameters(), max_norm)
        scaler.update()
        if scaler.get_scale() >= scale:
            scheduler.step()
