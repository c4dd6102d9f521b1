# misconception: momentum_forgotten
import random

import numpy as np
import torch
import torch.distributed as dist


def save_job(job, path):
    if dist.get_rank() == 0:
        torch.save(job.model.module.state_dict(), path)
    dist.barrier()


def load_job(job, path):
    job.model.module.load_state_dict(torch.load(path))
