# misconception: repaired
import torch
import torch.distributed as dist


def assert_in_sync(model):
    before = {k: v.clone() for k, v in model.state_dict().items()}
    for tensor in model.state_dict().values():
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    odd = [k for k, v in model.state_dict().items() if v.numpy().tobytes() != before[k].numpy().tobytes()]
    found = [None] * dist.get_world_size()
    dist.all_gather_object(found, odd)
    if any(found):
        raise AssertionError(" ".join(f"rank {r}: {names}" for r, names in enumerate(found)))
