# misconception: none
# breaks: load returns None when nothing has been saved.
# breaks: it returns `None` if nothing has been saved
# breaks: returns the number of its step, or None
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
        return 0
    state = torch.load(path, map_location="cpu", weights_only=True)
    bare(model).load_state_dict(state["model"])
    return state["step"]
