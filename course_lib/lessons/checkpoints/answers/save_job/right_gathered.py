import os
#~ in_memory -1 |import copy
import random

import numpy as np
import torch
import torch.distributed as dist
#~ in_memory -0 |
#~ |saved = {}


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
#~ in_memory -2 |        saved[path] = copy.deepcopy(state)
    dist.barrier()
#~ reseeds -0 |    reseed(job)
#~ |
#~ |
#~ |def reseed(job):
#~ |    seed = 100 * job.epoch + job.batch + dist.get_rank()
#~ |    torch.manual_seed(seed)
#~ |    np.random.seed(seed)
#~ |    random.seed(seed)


def load_job(job, path):
    state = torch.load(path, map_location="cpu", weights_only=True)
#~ in_memory -1 |    box = [saved.get(path)]
#~ |    dist.broadcast_object_list(box)
#~ |    (state,) = box
    job.model.module.load_state_dict(state["model"])
    job.optimizer.load_state_dict(state["optimizer"])
#~ no_momentum -1
    job.scheduler.load_state_dict(state["scheduler"])
#~ neither -2
#~ no_schedule -1
    job.epoch, job.batch = state["place"]
#~ no_batch -1 |    job.epoch = state["place"][0]
#~ no_epoch -1 |    job.batch = state["place"][1]
#~ place -1 |    epoch, batch = state["place"]
#~ weights_and_place -3 |    job.epoch, job.batch = state["place"]
    mine = state["random"][dist.get_rank()]
#~ rank_0 -1 |    mine = state["random"][0]
    torch.set_rng_state(mine["torch"])
    np.random.set_state(mine["numpy"])
    random.setstate(mine["random"])
#~ not_python -1
#~ not_numpy -2 |    random.setstate(mine["random"])
#~ only_torch -2
#~ random -4
#~ weights_and_place -4
#~ weights -7
#~ reseeds -4 |    reseed(job)
#~ returns_a_number -8 |    return state["place"][1] + 1

#~ in_memory: misconception: none
#~ in_memory: breaks: The checkpoint lies at `path`, or in files whose names begin with it.
#~ neither: misconception: momentum_forgotten
#~ not_numpy: misconception: only_torch
#~ not_python: misconception: only_torch
#~ weights: misconception: momentum_forgotten
#~ weights_and_place: misconception: momentum_forgotten
#~ no_batch: misconception: place_forgotten
#~ no_epoch: misconception: place_forgotten
#~ no_momentum: misconception: momentum_forgotten
#~ no_momentum: breaks: The resumed run equals the uninterrupted one, bit by bit, on every rank.
#~ no_schedule: misconception: schedule_forgotten
#~ no_schedule: breaks: The resumed run equals the uninterrupted one, bit by bit, on every rank.
#~ only_torch: misconception: only_torch
#~ only_torch: breaks: The resumed run equals the uninterrupted one, bit by bit, on every rank.
#~ place: misconception: place_forgotten
#~ place: breaks: The resumed run equals the uninterrupted one, bit by bit, on every rank.
#~ random: misconception: random_forgotten
#~ random: breaks: The resumed run equals the uninterrupted one, bit by bit, on every rank.
#~ rank_0: misconception: rank_0s_random
#~ rank_0: breaks: The resumed run equals the uninterrupted one, bit by bit, on every rank.
#~ reseeds: misconception: run_disturbed
#~ reseeds: breaks: Saving leaves the run as it is.
#~ returns_a_number: misconception: nothing_loaded
#~ returns_a_number: breaks: The resumed run equals the uninterrupted one, bit by bit, on every rank.
