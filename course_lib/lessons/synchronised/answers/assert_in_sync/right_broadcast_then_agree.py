# Compares with rank 0's tensors, and raises only after all ranks have told what they found.
#~ raises_early -1
import torch
import torch.distributed as dist



def assert_in_sync(model):
    rank, odd = dist.get_rank(), []
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        right = tensor.detach().clone()
#~ raises_early -3 |    for name, tensor in model.state_dict().items():
#~ |        right = tensor.clone()
        dist.broadcast(right, src=0)
        if not torch.equal(right.view(-1).view(torch.uint8), tensor.detach().contiguous().view(-1).view(torch.uint8)):
            odd.append((name, rank))
    found = [None] * dist.get_world_size()
    dist.all_gather_object(found, odd)
    everything = [f"{name} differs on rank {r}" for part in found for name, r in part]
    if everything:
        raise ValueError("; ".join(everything))
#~ raises_early -7 |        if not torch.equal(right.nan_to_num(7), tensor.nan_to_num(7)):
#~ |            raise AssertionError(f"{name} of rank {dist.get_rank()} is not that of rank 0")

#~ raises_early: misconception: own_view
#~ raises_early: breaks: Every rank raises where one rank differs.
