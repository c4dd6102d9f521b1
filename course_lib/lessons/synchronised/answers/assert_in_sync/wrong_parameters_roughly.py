# misconceptions: tolerance, buffers_forgotten
# breaks: Every rank raises where one rank differs.
import torch
import torch.distributed as dist


def assert_in_sync(model):
    for name, parameter in model.named_parameters():
        parts = [torch.empty_like(parameter) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, parameter.detach())
        for rank, part in enumerate(parts):
            if not torch.allclose(part, parts[0], atol=1e-5, equal_nan=True):
                raise RuntimeError(f"{name} of rank {rank} is not that of rank 0")
