# misconception: other_cause
# breaks: cause says why.
import torch.distributed as dist

culprit = {1}
cause = "one_rank"


def checkpoint(writer, write, read):
    if dist.get_rank() == writer:
        write()
    dist.barrier()  # the default group waits half an hour
    return read()
