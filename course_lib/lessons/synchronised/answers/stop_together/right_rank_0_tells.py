# Rank 0 gets all losses, decides, and tells everybody in each epoch.
import math

import torch
import torch.distributed as dist


def stop_together(train_epoch, validate, patience, most):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    means, best, waited = [], math.inf, 0
    for _ in range(most):
        train_epoch()
        gathered = [None] * ranks if rank == 0 else None
        dist.gather_object(validate(), gathered)
        told = [None, None]
        if rank == 0:
            mean = torch.cat(gathered).mean().item()
#~ own_of_rank_0 -1 |            mean = gathered[0].mean().item()
#~ worst_rank -1 |            mean = torch.stack([one.mean() for one in gathered]).max().item()
            waited = 0 if mean < best else waited + 1
            best = mean if mean < best else best
            told = [mean, waited >= patience]
#~ sent_inside -1 |            told = [mean, waited >= patience]
#~ |            dist.broadcast_object_list(told, src=0)
        dist.broadcast_object_list(told, src=0)
#~ sent_inside -1
        means.append(told[0])
        if told[1]:
            break
    return means

#~ worst_rank: misconception: one_rank_decides
#~ own_of_rank_0: misconception: one_rank_decides
#~ sent_inside: misconception: rank_0_alone_sends
