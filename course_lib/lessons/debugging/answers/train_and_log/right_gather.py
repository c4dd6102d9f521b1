import torch
import torch.distributed as dist

culprit = 0
cause = "one_rank"
#~ other_cause -1 |cause = "order"


def train_and_log(weight, batches, log):
    def mean_loss(loss):
        losses = [torch.empty_like(loss) for _ in range(dist.get_world_size())]
        dist.gather(loss, losses if dist.get_rank() == 0 else None, dst=0)
#~ reduce -1 |        dist.all_gather(losses, loss)
        return sum(losses).item() / len(losses)

    for step, batch in enumerate(batches):
        gradient = weight - batch.mean()
        loss = gradient.square()
        dist.all_reduce(gradient)
        weight -= 0.1 * gradient
        if step % 2 == 1:
            mean = mean_loss(loss)
            if dist.get_rank() == 0:
                log(mean)
#~ own_loss -4 |        if step % 2 == 1 and dist.get_rank() == 0:
#~ |            log(loss.item())
#~ reduce -4 |        if step % 2 == 1 and dist.get_rank() == 0:
#~ |            log(mean_loss(loss))
    return weight

#~ other_cause: misconception: other_cause
#~ other_cause: breaks: cause says why.
#~ own_loss: misconception: own_loss
#~ own_loss: breaks: What rank 0 logs, after every second step, is the mean of all ranks' losses.
#~ reduce: misconception: still_one_rank
