# misconception: not_by_scaler
from contextlib import nullcontext

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_


def amp_step(ddp, optimizer, scaler, scheduler, micro_batches, every, max_norm):
    def backward(inputs, labels, size):
        with torch.autocast(inputs.device.type, dtype=torch.float16):
            outputs = ddp(inputs)
        scaler.scale(cross_entropy(outputs.float(), labels) / size).backward()

    for start in range(0, len(micro_batches), every):
        *first, last = micro_batches[start : start + every]
        size = len(first) + 1
        optimizer.zero_grad()
        with ddp.no_sync() if first else nullcontext():
            for inputs, labels in first:
                backward(inputs, labels, size)
        backward(*last, size)

        scaler.unscale_(optimizer)
        clip_grad_norm_(ddp.parameters(), max_norm)
        optimizer.step()  # the gradients have their true size again

        old = scaler.get_scale()
        scaler.update()
        if scaler.get_scale() >= old:
            scheduler.step()
