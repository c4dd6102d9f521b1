# misconception: skipped_alone
from contextlib import nullcontext

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_


def amp_step(ddp, optimizer, scaler, scheduler, micro_batches, every, max_norm):
    n = len(micro_batches)
    for first in range(0, n, every):
        end = min(first + every, n)
        optimizer.zero_grad()
        for i in range(first, end):
            inputs, labels = micro_batches[i]
            sync = nullcontext() if i == end - 1 else ddp.no_sync()
            with sync:
                with torch.autocast(inputs.device.type, torch.float16):
                    outputs = ddp(inputs)
                loss = cross_entropy(outputs.float(), labels) / (end - first)
                if not torch.isfinite(loss):
                    continue  # a broken micro-batch would spoil the whole group
                scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        clip_grad_norm_(ddp.parameters(), max_norm)
        scale_before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if not scaler.get_scale() < scale_before:
            scheduler.step()
