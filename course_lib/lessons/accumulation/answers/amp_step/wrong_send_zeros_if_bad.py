# misconception: skipped_alone
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_


def average(params):
    grads = [p.grad for p in params if p.grad is not None]
    if not all(g.isfinite().all() for g in grads):
        for g in grads:
            g.zero_()  # do not poison the other ranks
    flat = torch.cat([g.flatten() for g in grads])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for g, piece in zip(grads, flat.split([g.numel() for g in grads])):
        g.copy_(piece.view_as(g))


def amp_step(ddp, optimizer, scaler, scheduler, micro_batches, every, max_norm):
    params = list(ddp.parameters())
    for start in range(0, len(micro_batches), every):
        group = micro_batches[start : start + every]
        optimizer.zero_grad()
        with ddp.no_sync():
            for inputs, labels in group:
                with torch.autocast(inputs.device.type, dtype=torch.float16):
                    outputs = ddp(inputs)
                scaler.scale(cross_entropy(outputs.float(), labels) / len(group)).backward()
        average(params)
        scaler.unscale_(optimizer)
        clip_grad_norm_(params, max_norm)
        scaler.step(optimizer)
        before = scaler.get_scale()
        scaler.update()
        if scaler.get_scale() >= before:
            scheduler.step()
