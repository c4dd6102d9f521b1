# misconception: removed_first
# breaks: Whenever save is killed, load finds the last checkpoint or the new one, entire.
# breaks: between whichever two steps
# breaks: and between whichever two steps
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
        if os.path.exists(path):
            os.remove(path)
        os.rename(new, path)
    dist.barrier()


def load(model, path):
    if not os.path.exists(path):
        return None
    state = torch.load(path, map_location="cpu", weights_only=True)
    bare(model).load_state_dict(state["model"])
    return state["step"]
