# misconception: norms_added
# breaks: Every rank returns the norm of all gradients of all ranks, the shared ones counted once.
# breaks: Find the norm of all gradients of all ranks
import torch
import torch.distributed as dist


def clip_global_norm(shared, own, max_norm):
    def squares(parameters):
        return sum((p.grad.square().sum() for p in parameters if p.grad is not None), torch.zeros(()))

    whole = squares(own).sqrt()
    dist.all_reduce(whole)
    norm = squares(shared).sqrt() + whole
    if norm.isfinite() and norm > max_norm:
        for p in shared + own:
            if p.grad is not None:
                p.grad *= max_norm / norm
    return norm.item()
