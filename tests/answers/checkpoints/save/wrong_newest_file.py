# misconception: none
# breaks: When save returns on a rank, load finds that step and these weights there, with or without a wrapper.
# breaks: in the same folder, lie files of others
import os
from pathlib import Path

import torch
import torch.distributed as dist


def save(model, step, path):
    if dist.get_rank() == 0:
        file = Path(path).parent / f"{step}.pt"
        torch.save({"step": step, "model": model.module.state_dict()}, f"{file}.new")
        os.replace(f"{file}.new", file)
    dist.barrier()


def load(model, path):
    files = [file for file in Path(path).parent.glob("*.pt") if file.stem.isdigit()]
    if not files:
        return None
    state = torch.load(max(files, key=lambda file: int(file.stem)))
    getattr(model, "module", model).load_state_dict(state["model"])
    return state["step"]
