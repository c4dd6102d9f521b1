# kind: none
# ranks: 3
# A token goes round a ring with isend and irecv.
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
for _step in range(5):
    received = torch.zeros(10)
    sending = dist.isend(torch.full((10,), float(rank)), dst=(rank + 1) % size)
    receiving = dist.irecv(received, src=(rank - 1) % size)
    sending.wait()
    receiving.wait()
    assert received[0] == (rank - 1) % size
dist.destroy_process_group()
