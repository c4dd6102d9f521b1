# misconception: own_view
# breaks: Every rank raises where one rank differs.
import torch
import torch.distributed as dist



def assert_in_sync(model):
    for name, tensor in model.state_dict().items():
        right = tensor.clone()
        dist.broadcast(right, src=0)
        if not torch.equal(right.nan_to_num(7), tensor.nan_to_num(7)):
            raise AssertionError(f"{name} of rank {dist.get_rank()} is not that of rank 0")
