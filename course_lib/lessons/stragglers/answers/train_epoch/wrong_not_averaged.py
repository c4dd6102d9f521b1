# misconception: not_averaged
# breaks: After the first epoch, all ranks have the weights of one process that took all samples of a round at once.
def train_epoch(ddp, optimizer, batches, losses_of):
    for inputs, targets in batches:
        optimizer.zero_grad()
        losses_of(ddp.module(inputs), targets).mean().backward()
        optimizer.step()
