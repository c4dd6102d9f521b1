from contextlib import nullcontext


def train_epoch(ddp, optimizer, micro_batches, loss_of, every):
    count = len(micro_batches)
    optimizer.zero_grad()
    for i, (inputs, targets) in enumerate(micro_batches):
        first = i - i % every
        size = min(every, count - first)
        last = i == first + size - 1
        with nullcontext() if last else ddp.no_sync():
            loss = loss_of(ddp(inputs), targets)
            (loss / size).backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()
