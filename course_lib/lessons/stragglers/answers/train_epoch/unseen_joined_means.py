# misconception: mean_of_means
from torch.distributed.algorithms.join import Join


def train_epoch(ddp, optimizer, batches, losses_of):
    with Join([ddp]):
        for batch in batches:
            optimizer.zero_grad()
            out = ddp(batch[0])
            losses = losses_of(out, batch[1])
            (losses.sum() / len(losses)).backward()
            optimizer.step()
