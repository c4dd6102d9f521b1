# misconception: momentum_forgotten
# breaks: The resumed run equals the uninterrupted one, bit by bit, on every rank.
# breaks: the training runs on as the old one did
# breaks: Save all that has a memory.
import os
import random

import numpy as np
import torch
import torch.distributed as dist


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
        torch.save(state, path + ".new")
        os.replace(path + ".new", path)
    dist.barrier()


def load_job(job, path):
    state = torch.load(path, map_location="cpu", weights_only=True)
    job.model.module.load_state_dict(state["model"])
    job.scheduler.load_state_dict(state["scheduler"])
    job.epoch, job.batch = state["place"]
    mine = state["random"][dist.get_rank()]
    torch.set_rng_state(mine["torch"])
    np.random.set_state(mine["numpy"])
    random.setstate(mine["random"])
