# misconception: two_files
# breaks: Whenever save is killed, load finds the last checkpoint or the new one, entire.
# breaks: the last checkpoint or the new one, entire
import os

import torch
import torch.distributed as dist


def bare(model):
    return model.module if hasattr(model, "module") else model


def save(model, step, path):
    if dist.get_rank() == 0:
        for thing, name in ((step, path + ".step"), (bare(model).state_dict(), path)):
            torch.save(thing, name + ".new")
            os.replace(name + ".new", name)
    dist.barrier()


def load(model, path):
    if not os.path.exists(path):
        return None
    state = torch.load(path, map_location="cpu", weights_only=True)
    bare(model).load_state_dict(state)
    return torch.load(path + ".step")
