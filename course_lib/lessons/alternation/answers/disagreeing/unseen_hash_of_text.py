# misconception: no_values
import torch.distributed as dist


def disagreeing(model):
    hashes = [hash(str(p.grad.tolist())) if p.grad is not None else 0 for p in model.parameters()]
    rows = [None] * dist.get_world_size()
    dist.all_gather_object(rows, hashes)
    names = [name for name, _ in model.module.named_parameters()]
    return [name for name, column in zip(names, zip(*rows)) if min(column) != max(column)]
