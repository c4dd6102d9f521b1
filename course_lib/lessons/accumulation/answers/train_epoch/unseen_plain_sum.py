# misconception: not_divided
def train_epoch(ddp, optimizer, micro_batches, loss_of, every):
    queue = list(micro_batches)
    while queue:
        group = [queue.pop(0) for _ in range(min(every, len(queue)))]
        optimizer.zero_grad()
        with ddp.no_sync():
            for x, y in group[:-1]:
                loss_of(ddp(x), y).backward()
        x, y = group[-1]
        loss_of(ddp(x), y).backward()
        optimizer.step()
