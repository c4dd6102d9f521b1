# misconception: sums_compared
# breaks: Every rank raises where one rank differs.
# breaks: is not that of rank 0, bit by bit
import torch
import torch.distributed as dist



def assert_in_sync(model):
    mine = {name: tensor.double().sum().item() for name, tensor in model.state_dict().items()}
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, mine)
    for name in mine:
        for rank, theirs in enumerate(everyones):
            if str(theirs[name]) != str(everyones[0][name]):
                raise AssertionError(f"{name} of rank {rank}")
