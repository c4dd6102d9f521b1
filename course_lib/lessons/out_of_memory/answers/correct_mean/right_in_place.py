import torch
import torch.distributed as dist


def correct_mean(ddp, good):
    count = torch.tensor([1.0 if good else 0.0])
#~ as_it_is -1 |    count = torch.tensor(float(good))
#~ divided_twice_unguarded -1 |    count = torch.tensor(float(good))
#~ only_the_good -1 |    count = torch.tensor(float(good))
#~ summed -1 |    count = torch.tensor(float(good))
#~ way_round -1 |    count = torch.tensor(float(good))
#~ zero_by_zero -1 |    count = torch.tensor(float(good))
    dist.all_reduce(count)
#~ to_rank_0 -1 |    dist.reduce(count, dst=0)
    if count.item() == 0:
        return 0
    for p in ddp.module.parameters():
#~ divided_twice_unguarded -3 |    for p in ddp.parameters():
#~ summed -3 |    for p in ddp.parameters():
#~ way_round -3 |    for p in ddp.parameters():
#~ zero_by_zero -3 |    for p in ddp.parameters():
        if p.grad is not None:
            p.grad.mul_(dist.get_world_size()).div_(count)
#~ divided_twice -1 |            p.grad.div_(count)
#~ no_frozen -2 |        p.grad.mul_(dist.get_world_size()).div_(count)
    return count
#~ as_it_is -6 |    return count.item()
#~ divided_twice_unguarded -2 |            p.grad /= count
#~ |    return int(count)
#~ only_the_good -6 |    if good:
#~ |        for p in ddp.parameters():
#~ |            if p.grad is not None:
#~ |                p.grad *= dist.get_world_size() / count
#~ |    return count.item()
#~ summed -2 |            p.grad *= dist.get_world_size()
#~ |    return count.item()
#~ way_round -2 |            p.grad *= count / dist.get_world_size()
#~ |    return count.item()
#~ zero_by_zero -2 |            p.grad *= dist.get_world_size() / count
#~ |    return count.item()

#~ as_it_is: misconception: not_corrected
#~ as_it_is: breaks: On every rank the gradients are the mean over the good ranks; zeros where there is none.
#~ divided_twice: misconception: divided_twice
#~ divided_twice: breaks: On every rank the gradients are the mean over the good ranks; zeros where there is none.
#~ divided_twice_unguarded: misconceptions: divided_twice, nobody_good
#~ divided_twice_unguarded: breaks: On every rank the gradients are the mean over the good ranks; zeros where there is none.
#~ no_frozen: misconception: none
#~ only_the_good: misconception: only_the_good
#~ only_the_good: breaks: On every rank the gradients are the mean over the good ranks; zeros where there is none.
#~ summed: misconception: summed
#~ summed: breaks: On every rank the gradients are the mean over the good ranks; zeros where there is none.
#~ to_rank_0: misconception: only_rank_0_knows
#~ way_round: misconception: wrong_way_round
#~ way_round: breaks: On every rank the gradients are the mean over the good ranks; zeros where there is none.
#~ zero_by_zero: misconception: nobody_good
#~ zero_by_zero: breaks: On every rank the gradients are the mean over the good ranks; zeros where there is none.
