# misconception: never_reduced
# breaks: After each epoch all ranks have the same weights.
def train_epoch(ddp, optimizer, micro_batches, loss_of, every):
    for first in range(0, len(micro_batches), every):
        group = micro_batches[first : first + every]
        optimizer.zero_grad()
        with ddp.no_sync():
            for inputs, targets in group:
                (loss_of(ddp(inputs), targets) / len(group)).backward()
        optimizer.step()
