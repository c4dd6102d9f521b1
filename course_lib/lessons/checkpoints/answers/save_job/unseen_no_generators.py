# misconception: random_forgotten
import random

import numpy as np
import torch
import torch.distributed as dist


def save_job(job, path):
    if dist.get_rank() == 0:
        parts = [job.model, job.optimizer, job.scheduler]
        torch.save([part.state_dict() for part in parts] + [job.epoch, job.batch], path)
    dist.barrier()


def load_job(job, path):
    model, optimizer, scheduler, epoch, batch = torch.load(path)
    job.model.load_state_dict(model)
    job.optimizer.load_state_dict(optimizer)
    job.scheduler.load_state_dict(scheduler)
    job.epoch = epoch
    job.batch = batch
