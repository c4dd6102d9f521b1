# misconception: never_reduced
import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_


def collect(ddp, scaler, group):
    # nothing is sent inside; DDP catches up when the block is left
    with ddp.no_sync():
        for inputs, labels in group:
            with torch.autocast(device_type=inputs.device.type, dtype=torch.float16):
                out = ddp(inputs)
            loss = cross_entropy(out.float(), labels) / len(group)
            scaler.scale(loss).backward()


def amp_step(ddp, optimizer, scaler, scheduler, micro_batches, every, max_norm):
    remaining = list(micro_batches)
    while remaining:
        group, remaining = remaining[:every], remaining[every:]

        optimizer.zero_grad()
        collect(ddp, scaler, group)

        scaler.unscale_(optimizer)
        clip_grad_norm_(ddp.parameters(), max_norm)
        old_scale = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        skipped = scaler.get_scale() < old_scale
        if not skipped:
            scheduler.step()
