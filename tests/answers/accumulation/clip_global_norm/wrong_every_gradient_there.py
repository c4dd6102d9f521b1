# misconception: none
# breaks: Some parameters have no gradient.
import math

import torch.distributed as dist


def clip_global_norm(shared, own, max_norm):
    def squares(parameters):
        return sum(p.grad.double().square().sum().item() for p in parameters)

    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, squares(own))
    norm = math.sqrt(squares(shared) + sum(everyones))
    if math.isfinite(norm) and norm > max_norm:
        for p in shared + own:
            if p.grad is not None:
                p.grad *= max_norm / norm
    return norm
