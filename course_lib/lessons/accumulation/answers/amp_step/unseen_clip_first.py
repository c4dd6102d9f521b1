# misconception: clipped_scaled
from contextlib import nullcontext

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_


def finish(ddp, optimizer, scaler, scheduler, max_norm):
    clip_grad_norm_([p for p in ddp.parameters() if p.grad is not None], max_norm)
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    before = scaler.get_scale()
    scaler.update()
    if scaler.get_scale() >= before:
        scheduler.step()
    optimizer.zero_grad()


def amp_step(ddp, optimizer, scaler, scheduler, micro_batches, every, max_norm):
    optimizer.zero_grad()
    n = len(micro_batches)
    for i, (inputs, labels) in enumerate(micro_batches):
        start = i - i % every
        end = min(start + every, n)
        with nullcontext() if i + 1 == end else ddp.no_sync():
            with torch.autocast(inputs.device.type, dtype=torch.float16):
                outputs = ddp(inputs)
            loss = cross_entropy(outputs.float(), labels) / (end - start)
            scaler.scale(loss).backward()
        if i + 1 == end:
            finish(ddp, optimizer, scaler, scheduler, max_norm)
