import torch.distributed as dist

culprit = {1}
cause = "late"
#~ other_cause -1 |cause = "one_rank"


def checkpoint(writer, write, read):
    if dist.get_rank() == writer:
        write()
#~ everybody_writes -2 |    write()
    dist.barrier()  # the default group waits half an hour
    return read()

#~ everybody_writes: misconception: none
#~ everybody_writes: breaks: Only the writer writes, and once.
#~ other_cause: misconception: other_cause
#~ other_cause: breaks: cause says why.
