# misconception: schedule_forgotten
import random

import numpy as np
import torch
import torch.distributed as dist


def save_job(job, path):
    torch.save(
        {
            "model": job.model.state_dict(),
            "optimizer": job.optimizer.state_dict(),
            "scheduler": job.scheduler.state_dict(),
            "epoch": job.epoch,
            "batch": job.batch,
            "rng": [torch.get_rng_state(), np.random.get_state(), random.getstate()],
        },
        f"{path}-rank{dist.get_rank()}",
    )


def load_job(job, path):
    ckpt = torch.load(f"{path}-rank{dist.get_rank()}", weights_only=False)
    job.model.load_state_dict(ckpt["model"])
    job.optimizer.load_state_dict(ckpt["optimizer"])
    job.epoch, job.batch = ckpt["epoch"], ckpt["batch"]
    torch.set_rng_state(ckpt["rng"][0])
    np.random.set_state(ckpt["rng"][1])
    random.setstate(ckpt["rng"][2])
