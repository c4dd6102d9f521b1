# kind: none
# ranks: 3
# Neighbours exchange borders with batch_isend_irecv; the ends of the row have one neighbour only.
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
for step in range(4):
    mine = torch.full((1000,), float(rank + step))
    borders = {peer: torch.zeros(1000) for peer in (rank - 1, rank + 1) if 0 <= peer < size}
    calls = [dist.P2POp(dist.isend, mine, peer) for peer in borders]
    calls += [dist.P2POp(dist.irecv, border, peer) for peer, border in borders.items()]
    for work in dist.batch_isend_irecv(calls):
        work.wait()
    assert all(border[0] == peer + step for peer, border in borders.items())
dist.destroy_process_group()
