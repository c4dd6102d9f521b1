# misconception: tolerance
# breaks: Every rank raises where one rank differs.
# breaks: is not that of rank 0, bit by bit
import torch
import torch.distributed as dist



def assert_in_sync(model):
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, model.state_dict())
    for name, right in everyones[0].items():
        for rank, theirs in enumerate(everyones):
            if not torch.allclose(theirs[name], right, equal_nan=True):
                raise AssertionError(f"{name} of rank {rank}")
