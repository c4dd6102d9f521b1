# misconception: not_averaged
def train_epoch(ddp, optimizer, batches, losses_of):
    for inputs, targets in batches:
        optimizer.zero_grad()
        losses_of(ddp.module(inputs), targets).mean().backward()
        optimizer.step()
