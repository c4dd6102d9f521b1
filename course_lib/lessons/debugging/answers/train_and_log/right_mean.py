import torch
import torch.distributed as dist

culprit = 0
cause = "one_rank"


def train_and_log(weight, batches, log):
    for step, batch in enumerate(batches):
        gradient = weight - batch.mean()
        loss = gradient.square()
        both = torch.cat([gradient, loss])
        dist.all_reduce(both)
        gradient, loss = both / dist.get_world_size()
        weight -= 0.1 * gradient
        if step % 2 == 1 and dist.get_rank() == 0:
            log(loss.item())
    return weight
