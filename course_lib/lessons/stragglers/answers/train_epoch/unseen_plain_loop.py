# misconceptions: waits_for_ever, mean_of_means
def train_epoch(ddp, optimizer, batches, losses_of):
    for inputs, targets in batches:
        loss = losses_of(ddp(inputs), targets).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
