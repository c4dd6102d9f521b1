# misconception: transposed
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh


def grid(rows, columns):
    mesh = init_device_mesh("cpu", (rows, columns))
    return mesh.get_group(0), mesh.get_group(1)
