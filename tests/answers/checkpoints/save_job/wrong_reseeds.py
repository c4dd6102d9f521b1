# misconception: run_disturbed
# breaks: Saving leaves the run as it is.
# breaks: The training goes on after it as if nothing had happened.
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
    reseed(job)


def reseed(job):
    seed = 100 * job.epoch + job.batch + dist.get_rank()
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)


def load_job(job, path):
    state = torch.load(path, map_location="cpu", weights_only=True)
    job.model.module.load_state_dict(state["model"])
    job.optimizer.load_state_dict(state["optimizer"])
    job.scheduler.load_state_dict(state["scheduler"])
    job.epoch, job.batch = state["place"]
    reseed(job)
