# misconception: zeroed_inside
from contextlib import ExitStack


def train_epoch(ddp, optimizer, micro_batches, loss_of, every):
    groups = [micro_batches[i : i + every] for i in range(0, len(micro_batches), every)]
    for group in groups:
        for number, (inputs, targets) in enumerate(group, 1):
            ddp.zero_grad()
            with ExitStack() as stack:
                if number < len(group):
                    stack.enter_context(ddp.no_sync())
                (loss_of(ddp(inputs), targets) / len(group)).backward()
        optimizer.step()
