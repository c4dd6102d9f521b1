# A file for each save, the newest complete one counts; rank 0 loads and sends.
import os
import re
import shutil
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.modules.utils import consume_prefix_in_state_dict_if_present


def complete(path):
    files = [f for f in Path(path).parent.iterdir() if re.fullmatch(Path(path).name + r"[.][0-9]+", f.name)]
    return sorted(files, key=lambda f: int(f.suffix[1:]))


def save(model, step, path):
    problem = [None]
    if dist.get_rank() == 0:
        try:
            state = dict(model.state_dict())
            consume_prefix_in_state_dict_if_present(state, "module.")
            torch.save((step, state), f"{path}.part")
            shutil.move(f"{path}.part", f"{path}.{step}")
        except OSError as error:
            problem = [str(error)]
    dist.broadcast_object_list(problem)
    if problem[0]:
        raise OSError(problem[0])


def load(model, path):
    found = [None]
    if dist.get_rank() == 0 and complete(path):
        found = [torch.load(complete(path)[-1])]
    dist.broadcast_object_list(found)
    if found[0] is None:
        return None
    step, state = found[0]
    getattr(model, "module", model).load_state_dict(state)
    return step
