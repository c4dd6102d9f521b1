# misconception: integers_forgotten
# breaks: Every rank raises where one rank differs.
import torch
import torch.distributed as dist



def assert_in_sync(model):
    mine = {n: t.numpy().tobytes() for n, t in model.state_dict().items() if t.is_floating_point()}
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, mine)
    for name in mine:
        for rank, theirs in enumerate(everyones):
            if theirs[name] != everyones[0][name]:
                raise AssertionError(f"{name} of rank {rank}")
