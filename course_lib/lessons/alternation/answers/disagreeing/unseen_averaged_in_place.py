# misconception: gradients_changed
import torch
import torch.distributed as dist


def disagreeing(model):
    out = []
    for name, p in model.named_parameters():
        has = torch.tensor(float(p.grad is not None))
        low = has.clone()
        dist.all_reduce(low, op=dist.ReduceOp.MIN)
        dist.all_reduce(has, op=dist.ReduceOp.MAX)
        if low != has:
            out.append(name)
        if low == 0:
            continue
        mine = p.grad.clone()
        dist.broadcast(p.grad, src=0)
        same = torch.tensor(float(torch.equal(mine, p.grad)))
        dist.all_reduce(same, op=dist.ReduceOp.MIN)
        if same == 0:
            out.append(name)
    return out
