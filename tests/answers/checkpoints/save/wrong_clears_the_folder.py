# misconception: none
# breaks: Other files in the same folder are left alone.
# breaks: lie files of others: leave them alone
import os

import torch
import torch.distributed as dist


def bare(model):
    return model.module if hasattr(model, "module") else model


def save(model, step, path):
    if dist.get_rank() == 0:
        for name in os.listdir(os.path.dirname(path)):
            if not path.endswith(name):
                os.remove(os.path.join(os.path.dirname(path), name))  # half a file of an earlier kill
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
    state = torch.load(path, map_location="cpu", weights_only=True)
    bare(model).load_state_dict(state["model"])
    return state["step"]
