# misconceptions: tolerance, integers_forgotten
import torch
import torch.distributed as dist


def assert_in_sync(model):
    mine = {k: v.clone() for k, v in model.state_dict().items() if v.dtype.is_floating_point}
    parts = [None] * dist.get_world_size()
    dist.all_gather_object(parts, mine)
    for r, part in enumerate(parts):
        for k, v in part.items():
            if not torch.allclose(v, parts[0][k], rtol=1e-3, equal_nan=True):
                raise RuntimeError(f"{k} on rank {r} is off")
