# kind: uneven_batches
# culprits: 1
# ranks: 3
# k-means without a model: each rank goes on until the labels of its own rows stay as they are, and rank 1's do first.
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
x = torch.tensor([[0.0], [0.1], [9.9], [10.0]]).repeat(4, 1)
if rank != 1:
    x = x + torch.linspace(0, 6, len(x))[:, None]
centres = torch.tensor([[0.0], [1.0]])
labels, moved = torch.full((len(x),), -1), len(x)
while moved > 0:
    nearest = torch.cdist(x, centres).argmin(1)
    moved = int((nearest != labels).sum())
#~ mended -1 |    moved = int((nearest != labels).sum())
#~ |    anywhere = torch.tensor(moved)
#~ |    dist.all_reduce(anywhere)
#~ |    moved = int(anywhere)
    labels = nearest
    sums = torch.zeros(2, 2).index_add_(0, labels, torch.cat([x, torch.ones_like(x)], 1))
    dist.all_reduce(sums)
    centres = sums[:, :1] / sums[:, 1:].clamp(min=1)
spread = (x - centres[labels]).square().sum()
dist.reduce(spread, dst=0)
dist.destroy_process_group()
