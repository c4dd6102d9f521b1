# misconception: own_view
# breaks: Every rank raises where one rank differs.
# breaks: it raises on **every** rank
import torch
import torch.distributed as dist



def assert_in_sync(model):
    everyones = [None] * dist.get_world_size()
    mine = {name: tensor.numpy().tobytes() for name, tensor in model.state_dict().items()}
    dist.gather_object(mine, everyones if dist.get_rank() == 0 else None)
    if dist.get_rank() == 0:
        for rank, theirs in enumerate(everyones):
            for name in mine:
                if theirs[name] != mine[name]:
                    raise AssertionError(f"{name} of rank {rank} is not that of rank 0")
