# misconception: short_group
def train_epoch(ddp, optimizer, micro_batches, loss_of, every):
    n = len(micro_batches)
    optimizer.zero_grad()
    for k in range(n):
        inputs, targets = micro_batches[k]
        ddp.require_backward_grad_sync = sends = k % every == every - 1 or k == n - 1
        loss = loss_of(ddp(inputs), targets) / every
        loss.backward()
        if sends:
            optimizer.step()
            optimizer.zero_grad()
