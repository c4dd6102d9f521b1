# misconception: left_over
def train_epoch(ddp, optimizer, micro_batches, loss_of, every):
    for g in range(len(micro_batches) // every):
        optimizer.zero_grad()
        *first, (x_last, y_last) = micro_batches[g * every : (g + 1) * every]
        with ddp.no_sync():
            for x, y in first:
                (loss_of(ddp(x), y) / every).backward()
        (loss_of(ddp(x_last), y_last) / every).backward()
        optimizer.step()
