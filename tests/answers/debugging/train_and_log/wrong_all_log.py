# misconception: logged_everywhere
# breaks: Only rank 0 logs.
# breaks: and only rank 0, calls `log`
import torch.distributed as dist

culprit = 0
cause = "one_rank"


def train_and_log(weight, batches, log):
    for step, batch in enumerate(batches):
        gradient = weight - batch.mean()
        loss = gradient.square()
        dist.all_reduce(gradient)
        weight -= 0.1 * gradient
        if step % 2 == 1:
            dist.all_reduce(loss)
            log(loss.item() / dist.get_world_size())
    return weight
