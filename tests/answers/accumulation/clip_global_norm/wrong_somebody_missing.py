# misconception: somebody_missing
# breaks: ranks may have different numbers of them, or none
import torch
import torch.distributed as dist


def clip_global_norm(shared, own, max_norm):
    def squares(parameters):
        return sum((p.grad.square().sum() for p in parameters if p.grad is not None), torch.zeros(()))

    whole = squares(own)
    if own:
        dist.all_reduce(whole)
    norm = (squares(shared) + whole).sqrt()
    if norm.isfinite() and norm > max_norm:
        for p in shared + own:
            if p.grad is not None:
                p.grad *= max_norm / norm
    return norm.item()
