# misconceptions: only_norms, missing_gradient
import torch
import torch.distributed as dist


def disagreeing(model):
    norms = [0.0 if p.grad is None else p.grad.norm().item() for p in model.module.parameters()]
    rows = [None] * dist.get_world_size()
    dist.all_gather_object(rows, norms)
    columns = list(zip(*rows))
    return [n for (n, _), c in zip(model.module.named_parameters(), columns) if len({f"{v:.12f}" for v in c}) > 1]
