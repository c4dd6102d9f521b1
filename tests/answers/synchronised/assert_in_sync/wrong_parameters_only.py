# misconception: buffers_forgotten
# breaks: Every rank raises where one rank differs.
# breaks: as soon as any parameter or buffer of `model`
import torch
import torch.distributed as dist



def assert_in_sync(model):
    mine = {name: p.detach().numpy().tobytes() for name, p in model.named_parameters()}
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, mine)
    for name in mine:
        for rank, theirs in enumerate(everyones):
            if theirs[name] != everyones[0][name]:
                raise AssertionError(f"{name} of rank {rank}")
