# misconception: runs_files
# breaks: load runs nothing that is in the file.
# breaks: It runs no code that a file brings along.
import os

import torch
import torch.distributed as dist


def bare(model):
    return model.module if hasattr(model, "module") else model


def save(model, step, path):
    if dist.get_rank() == 0:
        new = path + ".new"
        with open(new, "wb") as file:
            torch.save({"step": step, "model": bare(model).state_dict()}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    dist.barrier()


def load(model, path):
    if not os.path.exists(path):
        return None
    state = torch.load(path, map_location="cpu", weights_only=False)
    bare(model).load_state_dict(state["model"])
    return state["step"]
