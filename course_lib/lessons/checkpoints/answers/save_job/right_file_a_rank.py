# Every rank writes a file of its own, with everything in it.
#~ other_names -1
import pickle
import random

import numpy as np
import torch
import torch.distributed as dist


def parts(job):
    return {"model": job.model, "optimizer": job.optimizer, "scheduler": job.scheduler}


def save_job(job, path):
    state = {name: part.state_dict() for name, part in parts(job).items()}
    state["numbers"] = (job.epoch, job.batch, torch.get_rng_state(), np.random.get_state(), random.getstate())
    with open(f"{path}.{dist.get_rank()}", "wb") as file:
#~ other_names -1 |    with open(f"rank-{dist.get_rank()}-of-{path.rpartition('/')[2]}", "wb") as file:
        pickle.dump(state, file)


def load_job(job, path):
    with open(f"{path}.{dist.get_rank()}", "rb") as file:
#~ other_names -1 |    with open(f"rank-{dist.get_rank()}-of-{path.rpartition('/')[2]}", "rb") as file:
        state = pickle.load(file)
    for name, part in parts(job).items():
        part.load_state_dict(state[name])
    job.epoch, job.batch, torchs, numpys, pythons = state["numbers"]
    torch.set_rng_state(torchs)
    np.random.set_state(numpys)
    random.setstate(pythons)

#~ other_names: misconception: none
#~ other_names: breaks: The checkpoint lies at `path`, or in files whose names begin with it.
