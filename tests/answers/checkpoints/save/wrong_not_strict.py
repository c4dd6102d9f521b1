# misconception: not_strict
# breaks: When save returns on a rank, load finds that step and these weights there, with or without a wrapper.
# breaks: fills the model on every rank
# breaks: Fill the model from the checkpoint
import os

import torch
import torch.distributed as dist


def bare(model):
    return model.module if hasattr(model, "module") else model


def save(model, step, path):
    if dist.get_rank() == 0:
        new = path + ".new"
        with open(new, "wb") as file:
            torch.save({"step": step, "model": model.state_dict()}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    dist.barrier()


def load(model, path):
    if not os.path.exists(path):
        return None
    state = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict(state["model"], strict=False)
    return state["step"]
