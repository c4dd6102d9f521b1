# misconception: none
# breaks: The error names a tensor that differs, and a rank where it is not that of rank 0.
# breaks: The message names a tensor that differs, as `model.state_dict()` calls it
import torch
import torch.distributed as dist



def assert_in_sync(model):
    mine = {name: tensor.numpy().tobytes() for name, tensor in model.state_dict().items()}
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, mine)
    for rank, theirs in enumerate(everyones):
        for number, name in enumerate(mine):
            if theirs[name] != everyones[0][name]:
                raise RuntimeError(f"rank {rank} has another tensor {number} than rank 0")
