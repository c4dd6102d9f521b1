# misconception: summed
def train_epoch(ddp, optimizer, batches, losses_of):
    with ddp.join():
        while batches:
            (x, t), batches = batches[0], batches[1:]
            optimizer.zero_grad()
            total = 0
            for loss in losses_of(ddp(x), t):
                total = total + loss
            total.backward()
            optimizer.step()
