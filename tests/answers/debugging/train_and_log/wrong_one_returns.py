# misconception: none
# breaks: Every rank returns the weight that the descent comes to.
# breaks: All ranks return the weight.
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
            dist.all_reduce(loss)  # all ranks compute,
            if dist.get_rank() == 0:  # one logs
                log(loss.item() / dist.get_world_size())
    return weight if dist.get_rank() == 0 else None
