# All losses of all ranks on all ranks.
import torch
import torch.distributed as dist


def stop_together(train_epoch, validate, patience, most):
    means, best = [], 0
    while True:
        train_epoch()
        everyones = [None] * dist.get_world_size()
        dist.all_gather_object(everyones, validate().tolist())
        losses = [loss for of_rank in everyones for loss in of_rank]
        means.append(sum(losses) / len(losses))
#~ of_means -1 |        each = [sum(of_rank) / len(of_rank) for of_rank in everyones if of_rank]
#~ |        means.append(sum(each) / len(each))
#~ own_mean_first -1 |        each = [sum(of_rank) / len(of_rank) for of_rank in everyones]
#~ |        means.append(sum(each) / len(each))
#~ of_rank_0 -1 |        means.append(torch.tensor(everyones[0]).mean().item())
        if len(means) == 1 or means[-1] < means[best] or (means[best] != means[best] and means[-1] == means[-1]):
#~ first_is_best -1 |        if len(means) == 1 or means[-1] < means[best]:
            best = len(means) - 1
        if len(means) == most or len(means) - 1 - best >= patience:
            break
    return torch.tensor(means)
#~ returns_best -1 |    return means[best]

#~ first_is_best: misconception: nan_best
#~ of_means: misconception: mean_of_means
#~ of_rank_0: misconception: one_rank_decides
#~ own_mean_first: misconception: mean_of_means
#~ returns_best: misconception: none
