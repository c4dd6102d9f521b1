# misconception: schedule
from contextlib import nullcontext

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_


def amp_step(ddp, optimizer, scaler, scheduler, micro_batches, every, max_norm):
    for start in range(0, len(micro_batches), every):
        group = micro_batches[start : start + every]
        optimizer.zero_grad()
        run_group(ddp, scaler, group)
        scaler.unscale_(optimizer)
        clip_grad_norm_(ddp.parameters(), max_norm)
        done = scaler.step(optimizer)  # None if the step has been skipped
        scaler.update()
        if done is not None:
            scheduler.step()


def run_group(ddp, scaler, group):
    for k, (inputs, labels) in enumerate(group):
        last = k == len(group) - 1
        with nullcontext() if last else ddp.no_sync():
            with torch.autocast(inputs.device.type, dtype=torch.float16):
                outputs = ddp(inputs)
            scaler.scale(cross_entropy(outputs.float(), labels) / len(group)).backward()
