# misconception: own_view
import torch
import torch.distributed as dist


def disagreeing(model):
    mine = [(n, None if p.grad is None else p.grad.tolist()) for n, p in model.module.named_parameters()]
    box = [mine]
    dist.broadcast_object_list(box, src=0)
    return [name for (name, here), (_, there) in zip(mine, box[0]) if str(here) != str(there)]
