# Squares gathered as Python numbers.
#~ after_clipping -1
#~ every_gradient_there -1
#~ not_in_place -1
import math

#~ infinite -3 |import torch
#~ norms_added -3 |import torch
#~ shared_counted_by_all -3 |import torch
#~ somebody_missing -3 |import torch
import torch.distributed as dist


def clip_global_norm(shared, own, max_norm):
    def squares(parameters):
        return sum(p.grad.double().square().sum().item() for p in parameters if p.grad is not None)
#~ every_gradient_there -1 |        return sum(p.grad.double().square().sum().item() for p in parameters)
#~ infinite -1 |        return sum((p.grad.square().sum() for p in parameters if p.grad is not None), torch.zeros(()))
#~ norms_added -1 |        return sum((p.grad.square().sum() for p in parameters if p.grad is not None), torch.zeros(()))
#~ shared_counted_by_all -1 |        return sum((p.grad.square().sum() for p in parameters if p.grad is not None), torch.zeros(()))
#~ somebody_missing -1 |        return sum((p.grad.square().sum() for p in parameters if p.grad is not None), torch.zeros(()))

    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, squares(own))
    norm = math.sqrt(squares(shared) + sum(everyones))
#~ own_norm_guarded -1 |    norm = math.sqrt(squares(shared) + squares(own))
    if math.isfinite(norm) and norm > max_norm:
#~ larger -1 |    if norm > max_norm:
#~ own_finite -1 |    if math.isfinite(squares(own)) and norm > max_norm:
#~ infinite -4 |    whole = squares(own)
#~ |    dist.all_reduce(whole)
#~ |    norm = (squares(shared) + whole).sqrt()
#~ |    if not norm <= max_norm:
#~ norms_added -4 |    whole = squares(own).sqrt()
#~ |    dist.all_reduce(whole)
#~ |    norm = squares(shared).sqrt() + whole
#~ |    if norm.isfinite() and norm > max_norm:
#~ shared_counted_by_all -4 |    whole = squares(shared + own)
#~ |    dist.all_reduce(whole)
#~ |    norm = whole.sqrt()
#~ |    if norm.isfinite() and norm > max_norm:
#~ somebody_missing -4 |    whole = squares(own)
#~ |    if own:
#~ |        dist.all_reduce(whole)
#~ |    norm = (squares(shared) + whole).sqrt()
#~ |    if norm.isfinite() and norm > max_norm:
        for p in shared + own:
            if p.grad is not None:
                p.grad *= max_norm / norm
#~ not_in_place -1 |                p.grad = p.grad * (max_norm / norm)
    return norm
#~ after_clipping -1 |    return min(norm, max_norm)
#~ infinite -1 |    return norm.item()
#~ norms_added -1 |    return norm.item()
#~ shared_counted_by_all -1 |    return norm.item()
#~ somebody_missing -1 |    return norm.item()

#~ after_clipping: misconception: none
#~ after_clipping: breaks: Every rank returns the norm of all gradients of all ranks, the shared ones counted once.
#~ every_gradient_there: misconception: none
#~ infinite: misconception: infinite
#~ infinite: breaks: If it is not larger, or not finite, all gradients are left as they are.
#~ larger: misconception: infinite
#~ own_norm_guarded: misconception: own_norm
#~ norms_added: misconception: norms_added
#~ norms_added: breaks: Every rank returns the norm of all gradients of all ranks, the shared ones counted once.
#~ not_in_place: misconception: none
#~ not_in_place: breaks: If it is larger than max_norm, all gradients are shortened in place by one factor, on all ranks the same.
#~ own_finite: misconception: infinite
#~ shared_counted_by_all: misconception: shared_counted_by_all
#~ shared_counted_by_all: breaks: Every rank returns the norm of all gradients of all ranks, the shared ones counted once.
#~ somebody_missing: misconception: somebody_missing
