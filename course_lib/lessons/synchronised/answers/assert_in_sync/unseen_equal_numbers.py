# misconception: nan_differs
import torch
import torch.distributed as dist


def assert_in_sync(model):
    report = ""
    for name, tensor in model.state_dict().items():
        copies = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
        dist.all_gather(copies, tensor.contiguous())
        for rank, copy in enumerate(copies):
            if (copy != copies[0]).any():
                report += f"{name} differs on rank {rank}\n"
    if report:
        raise RuntimeError(report)
