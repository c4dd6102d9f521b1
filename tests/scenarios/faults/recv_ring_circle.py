# kind: waiting_in_a_circle
# culprits: -
# ranks: 3
# Everybody receives before anybody sends.
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
token = torch.zeros(1)
dist.recv(token, src=(rank - 1) % size)
dist.send(token, dst=(rank + 1) % size)
#~ mended -2 |if rank == 0:
#~ |    dist.send(token, dst=1)
#~ |dist.recv(token, src=(rank - 1) % size)
#~ |if rank:
#~ |    dist.send(token, dst=(rank + 1) % size)
dist.destroy_process_group()
