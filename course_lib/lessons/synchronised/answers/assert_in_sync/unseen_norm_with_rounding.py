# misconception: sums_compared
import torch
import torch.distributed as dist


def assert_in_sync(model):
    lengths = {k: round(v.double().norm().item() if not v.isnan().any() else -1.0, 3) for k, v in model.state_dict().items()}
    table = [None] * dist.get_world_size()
    dist.all_gather_object(table, lengths)
    bad = [(k, r) for r, row in enumerate(table) for k in row if row[k] != table[0][k]]
    if bad:
        raise RuntimeError("; ".join(f"{k} differs on rank {r}" for k, r in bad))
