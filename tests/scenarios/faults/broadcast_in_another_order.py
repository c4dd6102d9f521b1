# kind: different_sizes
# culprits: -
# ranks: 2
# start: spawn
# Weights are broadcast by a loop over a set of names, which has another order in each process.
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
dist.barrier()
shapes = {f"layer{n}.weight": (n + 1, 30) for n in range(12)}
for name in set(shapes):
#~ mended -1 |for name in sorted(set(shapes)):
    dist.broadcast(torch.zeros(shapes[name]), src=0)
dist.barrier()
dist.destroy_process_group()
