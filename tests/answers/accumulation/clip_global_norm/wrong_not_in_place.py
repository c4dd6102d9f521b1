# misconception: none
# breaks: If it is larger than max_norm, all gradients are shortened in place by one factor, on all ranks the same.
# breaks: shorten all gradients in place
import math

import torch.distributed as dist


def clip_global_norm(shared, own, max_norm):
    def squares(parameters):
        return sum(p.grad.double().square().sum().item() for p in parameters if p.grad is not None)

    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, squares(own))
    norm = math.sqrt(squares(shared) + sum(everyones))
    if math.isfinite(norm) and norm > max_norm:
        for p in shared + own:
            if p.grad is not None:
                p.grad = p.grad * (max_norm / norm)
    return norm
