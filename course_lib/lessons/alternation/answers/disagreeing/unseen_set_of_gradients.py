# misconception: no_values
import torch.distributed as dist


def disagreeing(model):
    table = {}
    for name, p in model.module.named_parameters():
        parts = [None] * dist.get_world_size()
        dist.all_gather_object(parts, p.grad)
        table[name] = set(parts)
    return [name for name, values in table.items() if len(values) > 1]
