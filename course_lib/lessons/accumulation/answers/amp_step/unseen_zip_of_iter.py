# misconception: left_over
from contextlib import nullcontext

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_


def amp_step(ddp, optimizer, scaler, scheduler, micro_batches, every, max_norm):
    iterator = iter(micro_batches)
    for group in zip(*[iterator] * every):
        optimizer.zero_grad()
        for k, (inputs, labels) in enumerate(group):
            with ddp.no_sync() if k + 1 < len(group) else nullcontext():
                with torch.autocast(inputs.device.type, dtype=torch.float16):
                    outputs = ddp(inputs)
                loss = cross_entropy(outputs.float(), labels) / len(group)
                scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        clip_grad_norm_(ddp.parameters(), max_norm)
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() >= before:
            scheduler.step()
