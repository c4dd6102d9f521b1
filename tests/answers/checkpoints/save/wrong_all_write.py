# misconception: all_write
# breaks: One rank writes.
# breaks: one rank writes the weights and the number of the step
import os

import torch
import torch.distributed as dist


def bare(model):
    return model.module if hasattr(model, "module") else model


def save(model, step, path):
    if True:
        new = f"{path}.{dist.get_rank()}"
        with open(new, "wb") as file:
            torch.save({"step": step, "model": bare(model).state_dict()}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    dist.barrier()


def load(model, path):
    if not os.path.exists(path):
        return None
    state = torch.load(path, map_location="cpu", weights_only=True)
    bare(model).load_state_dict(state["model"])
    return state["step"]
