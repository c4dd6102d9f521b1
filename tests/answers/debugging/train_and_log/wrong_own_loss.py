# misconception: own_loss
# breaks: What rank 0 logs, after every second step, is the mean of all ranks' losses.
# breaks: with the mean of all ranks' losses
import torch
import torch.distributed as dist

culprit = 0
cause = "one_rank"


def train_and_log(weight, batches, log):
    def mean_loss(loss):
        losses = [torch.empty_like(loss) for _ in range(dist.get_world_size())]
        dist.gather(loss, losses if dist.get_rank() == 0 else None, dst=0)
        return sum(losses).item() / len(losses)

    for step, batch in enumerate(batches):
        gradient = weight - batch.mean()
        loss = gradient.square()
        dist.all_reduce(gradient)
        weight -= 0.1 * gradient
        if step % 2 == 1 and dist.get_rank() == 0:
            log(loss.item())
    return weight
