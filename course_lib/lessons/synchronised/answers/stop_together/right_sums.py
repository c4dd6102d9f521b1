# One all_reduce per epoch: sum and number of the losses.
import copy
import math

import torch
import torch.distributed as dist


def stop_together(ddp, train_epoch, validate, patience, most):
    means, best, waited = [], math.inf, 0
    kept = copy.deepcopy(ddp.module.state_dict())
    while len(means) < most and waited < patience:
#~ no_limit -1 |    while waited < patience:
#~ one_late -1 |    while len(means) < most and waited <= patience:
#~ one_early -1 |    while len(means) < most and waited < patience - 1:
#~ not_told -1 |    while len(means) < most:
#~ no_patience -1 |    while len(means) < most:
#~ one_more -1 |    while len(means) <= most and waited < patience:
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
#~ last -1 |        if mean < (means[-2] if len(means) > 1 else math.inf):
#~ nan_sticks -1 |        better, best = mean < best, torch.minimum(torch.tensor(best), torch.tensor(mean)).item()
#~ |        if better:
#~ nan_is_better -1 |        if not mean >= best:
#~ threshold -1 |        if mean < best - 1e-3:
#~ ties -1 |        if mean <= best:
            best, waited = mean, 0
#~ never_reset -1 |            best = mean
            kept = copy.deepcopy(ddp.module.state_dict())
#~ not_copied -1 |            kept = ddp.module.state_dict()
#~ shallow -1 |            kept = copy.copy(ddp.module.state_dict())
        else:
            waited += 1
#~ nan_not_counted -2 |        elif not math.isnan(mean):
#~ |            waited += 1
#~ not_told -1 |            waited += 1
#~ |        if dist.get_rank() == 0 and waited >= patience:
#~ |            break
#~ asked_afterwards -1 |            waited += 1
#~ |        if waited >= patience:
#~ |            enough = torch.ones(1)
#~ |            dist.all_reduce(enough)
#~ |            break
#~ weights_sent -1 |            waited += 1
#~ |        for parameter in ddp.parameters():
#~ |            dist.broadcast(parameter.detach(), src=0)
    ddp.module.load_state_dict(kept)
#~ not_restored -1
#~ told_afterwards -1 |    stop = torch.ones(1)
#~ |    dist.broadcast(stop, src=0)
#~ |    ddp.module.load_state_dict(kept)
#~ best_on_rank_0 -1 |    if dist.get_rank() == 0:
#~ |        ddp.module.load_state_dict(kept)
    return means

#~ alone: misconception: own_loss
#~ asked_afterwards: misconception: after_the_loop
#~ best_on_rank_0: misconception: last_weights
#~ last: misconception: compared_with_last
#~ nan_is_better: misconception: nan_best
#~ nan_left_out: misconception: nan_left_out
#~ nan_not_counted: misconception: nan_left_out
#~ nan_sticks: misconception: nan_best
#~ nan_to_zero: misconception: nan_left_out
#~ never_reset: misconception: not_reset
#~ no_limit: misconception: no_limit
#~ no_patience: misconception: patience_off
#~ not_copied: misconception: last_weights
#~ not_copied: breaks: In the end the model has the weights of the best epoch, on all ranks.
#~ not_restored: misconception: last_weights
#~ not_told: misconception: rank_0_untold
#~ one_early: misconception: patience_off
#~ one_late: misconception: patience_off
#~ one_late: breaks: All ranks stop after the right epoch.
#~ one_more: misconception: no_limit
#~ own_means: misconception: local_losses
#~ own_means: breaks: Every rank returns the mean loss over all samples of all ranks, for each epoch.
#~ shallow: misconception: last_weights
#~ summed: misconception: none
#~ threshold: misconception: none
#~ threshold: breaks: All ranks stop after the right epoch.
#~ ties: misconception: ties_win
#~ ties: breaks: All ranks stop after the right epoch.
#~ to_rank_0: misconception: own_loss
#~ told_afterwards: misconception: after_the_loop
#~ weights_sent: misconception: sent_too_often
#~ weights_sent: breaks: The decision takes at most 4 collectives in an epoch.
