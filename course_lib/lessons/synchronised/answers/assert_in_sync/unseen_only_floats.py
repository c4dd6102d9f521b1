# misconception: integers_forgotten
import torch
import torch.distributed as dist


def assert_in_sync(model):
    odd = []
    for name, tensor in model.state_dict().items():
        if tensor.dtype != torch.float32:
            continue
        copies = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
        dist.all_gather(copies, tensor)
        odd += [f"{name}: rank {r}" for r, c in enumerate(copies) if not torch.equal(c.view(torch.int32), copies[0].view(torch.int32))]
    if odd:
        raise RuntimeError(", ".join(odd))
