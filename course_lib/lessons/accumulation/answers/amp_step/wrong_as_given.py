# misconceptions: schedule, reduced_each_time
# The loop that the task hands out.
import torch
from torch.nn.functional import cross_entropy
def amp_step(ddp, optimizer, scaler, scheduler, micro_batches, every, max_norm):
    for i, (inputs, labels) in enumerate(micro_batches):
        optimizer.zero_grad()
        with torch.autocast(inputs.device.type, torch.float16):
            loss = cross_entropy(ddp(inputs), labels)
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(ddp.parameters(), max_norm)
        scheduler.step()
        if (i + 1) % every == 0:
            optimizer.step()
