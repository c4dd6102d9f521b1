# Norms from torch, the factor clamped as clip_grad_norm_ does.
import torch
import torch.distributed as dist
from torch.nn.utils import clip_grads_with_norm_, get_total_norm
#~ own_norm -4 |from torch.nn.utils import clip_grad_norm_


def clip_global_norm(shared, own, max_norm):
    of_own = get_total_norm([p.grad for p in own if p.grad is not None]).square()
    dist.all_reduce(of_own)
#~ to_rank_0 -1 |    dist.reduce(of_own, dst=0)
    norm = (get_total_norm([p.grad for p in shared if p.grad is not None]).square() + of_own).sqrt()
    if torch.isfinite(norm):
        clip_grads_with_norm_([*shared, *own], max_norm, norm)
    return norm
#~ own_norm -6 |    return clip_grad_norm_([*shared, *own], max_norm).item()

#~ to_rank_0: misconception: none
#~ own_norm: misconception: own_norm
#~ own_norm: breaks: If it is not larger, or not finite, all gradients are left as they are.
