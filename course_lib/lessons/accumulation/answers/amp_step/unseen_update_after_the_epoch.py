# misconception: not_updated
import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_


def amp_step(ddp, optimizer, scaler, scheduler, micro_batches, every, max_norm):
    groups = [micro_batches[i : i + every] for i in range(0, len(micro_batches), every)]
    scale = scaler.get_scale()
    for group in groups:
        ddp.zero_grad()
        *most, last = group
        with ddp.no_sync():
            for micro_batch in most:
                backward(ddp, scaler, *micro_batch, len(group))
        backward(ddp, scaler, *last, len(group))
        scaler.unscale_(optimizer)
        clip_grad_norm_(ddp.parameters(), max_norm)
        scaler.step(optimizer)
        if scaler.get_scale() == scale:
            scheduler.step()
    scaler.update()


def backward(ddp, scaler, x, y, size):
    with torch.autocast("cpu", dtype=torch.float16):
        loss = cross_entropy(ddp(x), y)
    scaler.scale(loss / size).backward()
