# misconception: left_over
# breaks: Every group ends with a step of the optimizer, also one that is not full.
# breaks: After each group there is one step of the optimizer.
# breaks: with one step for each group of them
from contextlib import nullcontext


def train_epoch(ddp, optimizer, micro_batches, loss_of, every):
    for i, (inputs, targets) in enumerate(micro_batches):
        last = (i + 1) % every == 0
        with nullcontext() if last else ddp.no_sync():
            (loss_of(ddp(inputs), targets) / every).backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()
