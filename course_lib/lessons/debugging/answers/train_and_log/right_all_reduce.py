import torch.distributed as dist

culprit = 0
#~ witness -1 |culprit = 1
cause = "one_rank"
#~ late -1 |cause = "late"


def train_and_log(weight, batches, log):
    for step, batch in enumerate(batches):
        gradient = weight - batch.mean()
        loss = gradient.square()
        dist.all_reduce(gradient)
#~ gradient_not_reduced -1
        weight -= 0.1 * gradient
        if step % 2 == 1:
            dist.all_reduce(loss)  # all ranks compute,
            if dist.get_rank() == 0:  # one logs
                log(loss.item() / dist.get_world_size())
#~ all_log -3 |            dist.all_reduce(loss)
#~ |            log(loss.item() / dist.get_world_size())
#~ every_step -4 |        dist.all_reduce(loss)  # all ranks compute,
#~ |        if dist.get_rank() == 0:  # one logs
#~ |            log(loss.item() / dist.get_world_size())
    return weight
#~ one_returns -1 |    return weight if dist.get_rank() == 0 else None

#~ all_log: misconception: logged_everywhere
#~ all_log: breaks: Only rank 0 logs.
#~ every_step: misconception: none
#~ every_step: breaks: What rank 0 logs, after every second step, is the mean of all ranks' losses.
#~ gradient_not_reduced: misconception: none
#~ gradient_not_reduced: breaks: Every rank returns the weight that the descent comes to.
#~ late: misconception: only_late
#~ late: breaks: cause says why.
#~ one_returns: misconception: none
#~ one_returns: breaks: Every rank returns the weight that the descent comes to.
#~ witness: misconception: witness
#~ witness: breaks: culprit is the rank that does something else than the others.
