# misconception: schedule
# The lesson's loop, group by group.
from contextlib import nullcontext
import torch
from torch.nn.functional import cross_entropy
def train_on(group, ddp, optimizer, scaler, max_norm):
    optimizer.zero_grad()
    device = next(ddp.parameters()).device.type
    for number, (inputs, labels) in enumerate(group):
        last = number == len(group) - 1
        with nullcontext() if last else ddp.no_sync():
            with torch.autocast(device, torch.float16):
                loss = cross_entropy(ddp(inputs), labels) / len(group)
            scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(ddp.parameters(), max_norm)
    scaler.step(optimizer)
    scaler.update()
    return norm.item()
def amp_step(ddp, optimizer, scaler, scheduler, micro_batches, every, max_norm):
    for f in range(0, len(micro_batches), every):
        train_on(micro_batches[f:f+every], ddp, optimizer, scaler, max_norm)
        scheduler.step()
