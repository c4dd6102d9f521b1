# misconception: none
# breaks: The error names a tensor that differs, and a rank where it is not that of rank 0.
# breaks: and a rank where it does
import torch
import torch.distributed as dist



def assert_in_sync(model):
    mine = {name: tensor.numpy().tobytes() for name, tensor in model.state_dict().items()}
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, mine)
    for rank, theirs in enumerate(everyones):
        for name in mine:
            if theirs[name] != everyones[0][name]:
                raise RuntimeError(f"{name} differs")
