# misconception: none
from contextlib import nullcontext

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_


def amp_step(ddp, optimizer, scaler, scheduler, micro_batches, every, max_norm):
    for start in range(0, len(micro_batches), every):
        group = micro_batches[start : start + every]
        optimizer.zero_grad()
        for k, (inputs, labels) in enumerate(group, 1):
            with nullcontext() if k == len(group) else ddp.no_sync():
                with torch.autocast(inputs.device.type, dtype=torch.float16):
                    outputs = ddp(inputs)
                loss = cross_entropy(outputs.float(), labels) / len(group)
                scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        for parameter in ddp.parameters():
            clip_grad_norm_(parameter, max_norm)
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() >= before:
            scheduler.step()
