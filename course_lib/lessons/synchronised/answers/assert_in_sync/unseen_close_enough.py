# misconception: tolerance
import torch
import torch.distributed as dist


def assert_in_sync(model):
    world, problems = dist.get_world_size(), []
    for key, value in model.state_dict().items():
        flat = value.detach().double().reshape(-1)
        copies = [torch.zeros_like(flat) for _ in range(world)]
        dist.all_gather(copies, flat)
        for rank in range(world):
            difference = (copies[rank].nan_to_num(0.0) - copies[0].nan_to_num(0.0)).abs().max()
            if difference > 1e-4:
                problems.append(f"{key} of rank {rank}")
    if problems:
        raise AssertionError(str(problems))
