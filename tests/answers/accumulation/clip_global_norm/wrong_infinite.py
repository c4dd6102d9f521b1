# misconception: infinite
# breaks: If it is not larger, or not finite, all gradients are left as they are.
# breaks: If it is not finite, leave them as they are
import torch
import torch.distributed as dist


def clip_global_norm(shared, own, max_norm):
    def squares(parameters):
        return sum((p.grad.square().sum() for p in parameters if p.grad is not None), torch.zeros(()))

    whole = squares(own)
    dist.all_reduce(whole)
    norm = (squares(shared) + whole).sqrt()
    if not norm <= max_norm:
        for p in shared + own:
            if p.grad is not None:
                p.grad *= max_norm / norm
    return norm.item()
