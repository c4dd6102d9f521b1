# misconception: none
# breaks: The checkpoint lies at `path`, or in files whose names begin with it.
# breaks: is called on every rank of a *new* job
import copy
import random

import numpy as np
import torch
import torch.distributed as dist

saved = {}


def save_job(job, path):
    kind, keys, *rest = np.random.get_state()
    mine = {
        "torch": torch.get_rng_state(),
        "numpy": (kind, keys.tolist(), *rest),
        "random": random.getstate(),
    }
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, mine)
    if dist.get_rank() == 0:
        state = {
            "model": job.model.module.state_dict(),
            "optimizer": job.optimizer.state_dict(),
            "scheduler": job.scheduler.state_dict(),
            "place": (job.epoch, job.batch),
            "random": everyones,
        }
        saved[path] = copy.deepcopy(state)
    dist.barrier()


def load_job(job, path):
    box = [saved.get(path)]
    dist.broadcast_object_list(box)
    (state,) = box
    job.model.module.load_state_dict(state["model"])
    job.optimizer.load_state_dict(state["optimizer"])
    job.scheduler.load_state_dict(state["scheduler"])
    job.epoch, job.batch = state["place"]
    mine = state["random"][dist.get_rank()]
    torch.set_rng_state(mine["torch"])
    np.random.set_state(mine["numpy"])
    random.setstate(mine["random"])
