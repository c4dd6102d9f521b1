# misconception: zeroed_inside
def train_epoch(ddp, optimizer, micro_batches, loss_of, every):
    n = len(micro_batches)
    for i, (inputs, targets) in enumerate(micro_batches):
        optimizer.zero_grad()
        if (i + 1) % every and i + 1 < n:
            with ddp.no_sync():
                loss_of(ddp(inputs), targets).backward()
        else:
            loss_of(ddp(inputs), targets).backward()
            optimizer.step()
