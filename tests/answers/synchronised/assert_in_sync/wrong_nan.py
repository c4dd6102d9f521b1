# misconception: nan_differs
# breaks: Nothing is raised where all ranks have the same model.
# breaks: If all ranks agree, it does nothing.
import torch
import torch.distributed as dist



def assert_in_sync(model):
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, model.state_dict())
    for name, right in everyones[0].items():
        for rank, theirs in enumerate(everyones):
            if not torch.equal(theirs[name], right):
                raise AssertionError(f"{name} of rank {rank}")
