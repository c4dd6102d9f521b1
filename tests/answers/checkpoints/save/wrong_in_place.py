# misconception: in_place
# breaks: Whenever save is killed, load finds the last checkpoint or the new one, entire.
# breaks: at whatever byte
# breaks: is killed, at whatever byte
import os

import torch
import torch.distributed as dist


def bare(model):
    return model.module if hasattr(model, "module") else model


def save(model, step, path):
    if dist.get_rank() == 0:
        torch.save({"step": step, "model": bare(model).state_dict()}, path)
    dist.barrier()


def load(model, path):
    if not os.path.exists(path):
        return None
    state = torch.load(path, map_location="cpu", weights_only=True)
    bare(model).load_state_dict(state["model"])
    return state["step"]
