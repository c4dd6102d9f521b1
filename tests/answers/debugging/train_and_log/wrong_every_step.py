# misconception: none
# breaks: What rank 0 logs, after every second step, is the mean of all ranks' losses.
# breaks: After every second step
# breaks: every second step is logged
import torch.distributed as dist

culprit = 0
cause = "one_rank"


def train_and_log(weight, batches, log):
    for step, batch in enumerate(batches):
        gradient = weight - batch.mean()
        loss = gradient.square()
        dist.all_reduce(gradient)
        weight -= 0.1 * gradient
        dist.all_reduce(loss)  # all ranks compute,
        if dist.get_rank() == 0:  # one logs
            log(loss.item() / dist.get_world_size())
    return weight
