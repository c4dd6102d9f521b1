# misconception: own_view
import torch
import torch.distributed as dist


def assert_in_sync(model):
    state = {k: v.tolist() for k, v in model.state_dict().items()}
    parts = [None] * dist.get_world_size()
    dist.all_gather_object(parts, state)
    if dist.get_rank() > 0:
        return
    for rank in range(1, len(parts)):
        for key in state:
            if str(parts[rank][key]) != str(state[key]):
                raise RuntimeError(f"rank {rank} has other values in {key}")
