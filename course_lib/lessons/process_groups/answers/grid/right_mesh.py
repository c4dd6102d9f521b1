from torch.distributed.device_mesh import init_device_mesh


def grid(rows, columns):
    mesh = init_device_mesh("cpu", (rows, columns), mesh_dim_names=("down", "along"))
    return mesh.get_group("along"), mesh.get_group("down")
