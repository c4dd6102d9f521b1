import torch.distributed as dist

culprit = {1}
cause = "late"


def checkpoint(writer, write, read):
    if dist.get_rank() == writer:
        write()
    dist.barrier()  # the default group waits half an hour
    return read()
