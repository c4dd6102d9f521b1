# kind: nobody_answers
# culprits: 0
# ranks: 2
# A pipeline's second stage waits for an activation that the first stage does not send.
import torch
import torch.distributed as dist


def stage(rank):
    activation = torch.zeros(4)
    if rank == 1:
        dist.recv(activation, src=0)
#~ mended -1 |        dist.recv(activation, src=0)
#~ |    elif rank == 0:
#~ |        dist.send(activation, dst=1)
    return activation


dist.init_process_group("gloo")
stage(dist.get_rank())
dist.destroy_process_group()
