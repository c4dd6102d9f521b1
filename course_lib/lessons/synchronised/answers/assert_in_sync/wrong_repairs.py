# misconception: repaired
# breaks: The model is still what it was.
import torch
import torch.distributed as dist



def assert_in_sync(model):
    found, everyones = [], [None] * dist.get_world_size()
    for name, tensor in model.state_dict().items():
        mine = tensor.clone()
        dist.broadcast(tensor, src=0)
        if not torch.equal(mine.nan_to_num(7), tensor.nan_to_num(7)):
            found.append(f"{name} of rank {dist.get_rank()}")
    dist.all_gather_object(everyones, found)
    everything = [text for part in everyones for text in part]
    if everything:
        raise AssertionError(", ".join(everything))
