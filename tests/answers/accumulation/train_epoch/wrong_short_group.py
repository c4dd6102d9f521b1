# misconception: short_group
# breaks: They are those of one process that takes all samples of a group, of all ranks, at once.
# breaks: the last group may be shorter
from contextlib import nullcontext


def train_epoch(ddp, optimizer, micro_batches, loss_of, every):
    for i, (inputs, targets) in enumerate(micro_batches):
        last = (i + 1) % every == 0 or i == len(micro_batches) - 1
        with nullcontext() if last else ddp.no_sync():
            (loss_of(ddp(inputs), targets) / every).backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()
