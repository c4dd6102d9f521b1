# misconception: all_write
# breaks: One rank writes.
import os
import time

import torch
import torch.distributed as dist


def bare(model):
    return model.module if hasattr(model, "module") else model


def save(model, step, path):
    new = f"{path}.{dist.get_rank()}"
    torch.save({"step": step, "model": bare(model).state_dict()}, new)
    os.replace(new, path)
    dist.barrier()


def load(model, path):
    if dist.get_rank() == 1:
        time.sleep(0.2)  # the others have gone on long since
    if not os.path.exists(path):
        return None
    state = torch.load(path, map_location="cpu", weights_only=True)
    bare(model).load_state_dict(state["model"])
    return state["step"]
