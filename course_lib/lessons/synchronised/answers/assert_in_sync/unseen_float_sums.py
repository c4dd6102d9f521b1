# misconceptions: sums_compared, integers_forgotten
import torch
import torch.distributed as dist


def assert_in_sync(model):
    sums = {k: v.double().sum().item() for k, v in model.state_dict().items() if v.is_floating_point()}
    rows = [None] * dist.get_world_size()
    dist.all_gather_object(rows, sums)
    for k in sums:
        for r, row in enumerate(rows):
            if repr(row[k]) != repr(rows[0][k]):
                raise AssertionError(f"{k} of rank {r} has another sum")
