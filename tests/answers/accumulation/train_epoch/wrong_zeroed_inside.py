# misconception: zeroed_inside
# breaks: They are those of one process that takes all samples of a group, of all ranks, at once.
# breaks: repair the rest
from contextlib import nullcontext


def train_epoch(ddp, optimizer, micro_batches, loss_of, every):
    count = len(micro_batches)
    for i, (inputs, targets) in enumerate(micro_batches):
        last = (i + 1) % every == 0 or i == count - 1
        optimizer.zero_grad()
        with nullcontext() if last else ddp.no_sync():
            (loss_of(ddp(inputs), targets) / min(every, count - (i - i % every))).backward()
        if last:
            optimizer.step()
