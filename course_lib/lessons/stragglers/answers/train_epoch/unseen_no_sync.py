# misconception: not_averaged
def train_epoch(ddp, optimizer, batches, losses_of):
    with ddp.no_sync():
        for inputs, targets in batches:
            optimizer.zero_grad()
            losses_of(ddp(inputs), targets).mean().backward()
            optimizer.step()
