# kind: different_roots
# culprits: -
# ranks: 3
# The rank with the best score sends its settings; one rank has another idea of who that is. gloo does not notice.
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
scores = [0.1, 0.9, 0.3] if rank != 2 else [0.9, 0.1, 0.3]
best = max(range(len(scores)), key=scores.__getitem__)
settings = torch.full((3,), float(rank))
for _ in range(2):
    dist.broadcast(settings, src=best if rank != 2 else 1)
work = dist.broadcast(settings, src=best, async_op=True)
del work
#~ mended -3 |    dist.broadcast(settings, src=1)
#~ |dist.broadcast(settings, src=1)
print(settings.shape)
dist.destroy_process_group()
