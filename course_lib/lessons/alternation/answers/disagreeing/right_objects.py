import torch
import torch.distributed as dist


def disagreeing(model):
    mine = {name: None if p.grad is None else p.grad.clone() for name, p in model.module.named_parameters()}
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, mine)

    def same(a, b):
        return a is b if a is None or b is None else torch.equal(a, b)

    return [name for name in mine if not all(same(everyones[0][name], other[name]) for other in everyones)]
#~ layers -1 |    return [name.rpartition(".")[0] for name in mine if not all(same(everyones[0][name], other[name]) for other in everyones)]

#~ layers: misconception: none
