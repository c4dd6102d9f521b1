# misconception: none
# breaks: Only the writer writes, and once.
# breaks: `writer` writes once
# breaks: One rank writes the checkpoint
import torch.distributed as dist

culprit = {1}
cause = "late"


def checkpoint(writer, write, read):
    write()
    dist.barrier()  # the default group waits half an hour
    return read()
