# misconception: mean_of_means
# breaks: After the first epoch, all ranks have the weights of one process that took all samples of a round at once.
def train_epoch(ddp, optimizer, batches, losses_of):
    with ddp.join():
        for inputs, targets in batches:
            optimizer.zero_grad()
            losses_of(ddp(inputs), targets).mean().backward()
            optimizer.step()
