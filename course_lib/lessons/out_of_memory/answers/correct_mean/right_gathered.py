import torch.distributed as dist


def correct_mean(ddp, good):
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, bool(good))
    for p in ddp.parameters():
        if p.requires_grad:
            p.grad = p.grad * (len(everyone) / max(1, sum(everyone)))
    return sum(everyone)
#~ returns_ranks -1 |    return len(everyone)

#~ returns_ranks: misconception: none
#~ returns_ranks: breaks: It is the number of good ranks.
