import torch
import torch.distributed as dist


def disagreeing(model):
#~ none_is_equal -0 |    mine = {name: p.grad for name, p in model.module.named_parameters()}
#~ |    everyones = [None] * dist.get_world_size()
#~ |    dist.all_gather_object(everyones, mine)
    names = []
    for name, p in model.named_parameters():
        here = torch.tensor([float(p.grad is not None)])
#~ nan -0 |        flat = torch.zeros_like(p).flatten() if p.grad is None else p.grad.detach().flatten()
#~ |        low, high = torch.cat([here, flat]), torch.cat([here, flat])
        flat = torch.zeros_like(p).flatten() if p.grad is None else p.grad.detach().flatten()
        low = torch.cat([here, flat.isnan(), flat.nan_to_num()])
        high = low.clone()
#~ nan -3
#~ nan_lost -2 |        low, high = torch.cat([here, flat]), torch.cat([here, flat])
        dist.all_reduce(low, op=dist.ReduceOp.MIN)
        dist.all_reduce(high, op=dist.ReduceOp.MAX)
        if not torch.equal(low, high):
#~ nan -1 |        if (high - low).max() > 0:
#~ allclose -8 |    for name, p in model.module.named_parameters():
#~ |        there = torch.tensor([float(p.grad is not None)])
#~ |        gradient = p.grad if p.grad is not None else torch.zeros_like(p)
#~ |        mine = torch.cat([gradient.flatten(), there])
#~ |        everyones = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
#~ |        dist.all_gather(everyones, mine)
#~ |        if not all(torch.allclose(one, everyones[0]) for one in everyones):
#~ close_to_the_mean -8 |    for name, p in model.module.named_parameters():
#~ |        there = torch.tensor([float(p.grad is not None)])
#~ |        gradient = p.grad if p.grad is not None else torch.zeros_like(p)
#~ |        mine = torch.cat([gradient.flatten(), there])
#~ |        mean = mine.clone()
#~ |        dist.all_reduce(mean)
#~ |        mean /= dist.get_world_size()
#~ |        differs = torch.tensor(float((mine - mean).abs().max() > 1e-6))
#~ |        dist.all_reduce(differs)
#~ |        if differs > 0:
#~ in_place -8 |    for name, p in model.module.named_parameters():
#~ |        if p.grad is None:
#~ |            p.grad = torch.full_like(p, 99.0)
#~ |        before = p.grad.clone()
#~ |        dist.all_reduce(p.grad, op=dist.ReduceOp.AVG)
#~ |        odd = torch.tensor(float((before - p.grad).abs().max() > 1e-6))
#~ |        dist.all_reduce(odd, op=dist.ReduceOp.MAX)
#~ |        if odd.item():
#~ none_is_equal -8 |    for name in mine:
#~ |        there = [grads[name] for grads in everyones if grads[name] is not None]
#~ |        if not all(torch.equal(there[0], grad) for grad in there):
#~ none_is_zeros -8 |    for name, parameter in model.module.named_parameters():
#~ |        mine = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
#~ |        everyones = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
#~ |        dist.all_gather(everyones, mine.contiguous())
#~ |        if any(not torch.equal(one, everyones[0]) for one in everyones):
#~ own_view -8 |    for name, p in model.module.named_parameters():
#~ |        mine = torch.full_like(p, 99.0) if p.grad is None else p.grad.clone()
#~ |        theirs = mine.clone()
#~ |        dist.broadcast(theirs, src=0)
#~ |        if not torch.equal(mine, theirs):
#~ skips_none -8 |    for name, p in model.module.named_parameters():
#~ |        if p.grad is None:
#~ |            continue
#~ |        others = [torch.empty_like(p.grad) for _ in range(dist.get_world_size())]
#~ |        dist.all_gather(others, p.grad)
#~ |        if not all(torch.equal(others[0], other) for other in others):
#~ weights -8 |    for name, p in model.module.named_parameters():
#~ |        others = [torch.empty_like(p) for _ in range(dist.get_world_size())]
#~ |        dist.all_gather(others, p.detach())
#~ |        if not all(torch.equal(p, other) for other in others):
            names.append(name)
    return names

#~ allclose: misconception: tolerance
#~ allclose: breaks: Every rank returns the names of the parameters whose gradients differ between ranks.
#~ close_to_the_mean: misconceptions: tolerance, nan_passed
#~ in_place: misconception: gradients_changed
#~ in_place: breaks: The gradients are still what they were.
#~ none_is_equal: misconception: missing_gradient
#~ none_is_equal: breaks: Every rank returns the names of the parameters whose gradients differ between ranks.
#~ none_is_zeros: misconception: missing_gradient
#~ none_is_zeros: breaks: Every rank returns the names of the parameters whose gradients differ between ranks.
#~ nan: misconception: nan_passed
#~ nan_lost: misconception: nan_passed
#~ own_view: misconception: own_view
#~ own_view: breaks: All ranks return the same names.
#~ skips_none: misconception: missing_gradient
#~ weights: misconception: weights_compared
#~ weights: breaks: Every rank returns the names of the parameters whose gradients differ between ranks.
