# misconception: parts_apart
# breaks: If it is larger than max_norm, all gradients are shortened in place by one factor, on all ranks the same.
import torch
import torch.distributed as dist
from torch.nn.utils import clip_grads_with_norm_


def clip_global_norm(shared, own, max_norm):
    def squares(parameters):
        return sum((p.grad.square().sum() for p in parameters if p.grad is not None), torch.zeros(()))

    of_own, of_shared = squares(own), squares(shared)
    dist.all_reduce(of_own)
    norm = (of_shared + of_own).sqrt()
    if norm.isfinite():
        clip_grads_with_norm_(shared, max_norm, of_shared.sqrt())
        clip_grads_with_norm_(own, max_norm, of_own.sqrt())
    return norm.item()
