# One all_reduce per epoch: sum and number of the losses.
import math

import torch
import torch.distributed as dist


def stop_together(train_epoch, validate, patience, most):
    means, best, waited = [], math.inf, 0
    while len(means) < most and waited < patience:
#~ no_limit -1 |    while waited < patience:
#~ one_late -1 |    while len(means) < most and waited <= patience:
#~ one_early -1 |    while len(means) < most and waited < patience - 1:
#~ not_told -1 |    while len(means) < most:
        train_epoch()
        losses = validate()
#~ nan_left_out -1 |        losses = validate()
#~ |        losses = losses[~losses.isnan()]
#~ nan_to_zero -1 |        losses = validate().nan_to_num()
        both = torch.stack([losses.sum(), losses.new_tensor(len(losses))])
        dist.all_reduce(both)
#~ alone -1
#~ to_rank_0 -1 |        dist.reduce(both, dst=0)
#~ asked_afterwards -1
#~ told_afterwards -1
        mean = (both[0] / both[1]).item()
        means.append(mean)
#~ own_means -1 |        means.append(losses.mean().item())
#~ summed -1 |        means.append(both[0].item())
        if mean < best:
#~ nan_sticks -1 |        better, best = mean < best, torch.minimum(torch.tensor(best), torch.tensor(mean)).item()
#~ |        if better:
#~ nan_is_better -1 |        if not mean >= best:
            best, waited = mean, 0
#~ never_reset -1 |            best = mean
        else:
            waited += 1
#~ not_told -1 |            waited += 1
#~ |        if dist.get_rank() == 0 and waited >= patience:
#~ |            break
#~ asked_afterwards -1 |            waited += 1
#~ |        if waited >= patience:
#~ |            enough = torch.ones(1)
#~ |            dist.all_reduce(enough)
#~ |            break
    return means
#~ told_afterwards -1 |    stop = torch.ones(1)
#~ |    dist.broadcast(stop, src=0)
#~ |    return means

#~ alone: misconception: own_loss
#~ asked_afterwards: misconception: after_the_loop
#~ nan_is_better: misconception: nan_best
#~ nan_left_out: misconception: nan_left_out
#~ nan_to_zero: misconception: nan_left_out
#~ nan_sticks: misconception: nan_best
#~ never_reset: misconception: none
#~ no_limit: misconception: none
#~ not_told: misconception: rank_0_untold
#~ one_early: misconception: patience_off
#~ one_late: misconception: patience_off
#~ one_late: breaks: All ranks stop after the right epoch.
#~ own_means: misconception: local_losses
#~ own_means: breaks: Every rank returns the mean loss over all samples of all ranks, for each epoch.
#~ summed: misconception: none
#~ to_rank_0: misconception: own_loss
#~ told_afterwards: misconception: after_the_loop
