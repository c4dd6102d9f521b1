# misconception: none
# breaks: They are those of one process that takes all samples of a group, of all ranks, at once.
# breaks: Every `every` micro-batches make a group
from contextlib import nullcontext


def train_epoch(ddp, optimizer, micro_batches, loss_of, every):
    optimizer.zero_grad()
    for i, (inputs, targets) in enumerate(micro_batches):
        last = i % every == 0 or i == len(micro_batches) - 1
        with nullcontext() if last else ddp.no_sync():
            (loss_of(ddp(inputs), targets) / min(every, len(micro_batches))).backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()
