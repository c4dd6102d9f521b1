# With or without GPUs; everything named that torchrun has set.
import os

import torch
import torch.distributed as dist


def start(build, train):
    local_rank = int(os.environ["LOCAL_RANK"])
    gpus = torch.cuda.is_available() and torch.cuda.device_count() > local_rank
    if gpus:
        torch.cuda.set_device(local_rank)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("nccl" if gpus else None, rank=rank, world_size=size)
    model = build().to(local_rank) if gpus else build()
    wrapped = torch.nn.parallel.DistributedDataParallel(model, device_ids=[local_rank] if gpus else None)
    try:
        result = train(wrapped)
    except Exception:
        del wrapped
        dist.destroy_process_group()
        raise
    del wrapped
    dist.destroy_process_group()
    return result
