# misconception: mean_of_means
def train_epoch(ddp, optimizer, batches, losses_of):
    with ddp.join():
        for inputs, targets in batches:
            optimizer.zero_grad()
            losses_of(ddp(inputs), targets).mean().backward()
            optimizer.step()
