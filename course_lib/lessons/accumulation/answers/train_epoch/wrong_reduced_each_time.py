# misconception: reduced_each_time
# breaks: Gradients are sent once a step.
def train_epoch(ddp, optimizer, micro_batches, loss_of, every):
    for first in range(0, len(micro_batches), every):
        group = micro_batches[first : first + every]
        optimizer.zero_grad()
        for inputs, targets in group:
            (loss_of(ddp(inputs), targets) / len(group)).backward()
        optimizer.step()
