import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy


def everyones(x, sizes):
    """Numbers from all ranks; this rank's rows are put back in, with a gradient that DDP's mean does not make small."""
    parts = []
    for rank, size in enumerate(sizes):
        part = x.detach().clone() if rank == dist.get_rank() else torch.empty(size, x.shape[1])
        dist.broadcast(part, src=rank)
        parts.append(part)
    parts[dist.get_rank()] = x.detach() + len(sizes) * (x - x.detach())
#~ slice_once -1 |    parts[dist.get_rank()] = x
#~ loss_scaled -1 |    parts[dist.get_rank()] = x
    return torch.cat(parts)


def contrast(one, other, temperature, sizes):
    scores = everyones(one, sizes) @ everyones(other, sizes).T / temperature
    places = torch.arange(len(scores))
    return (cross_entropy(scores, places) + cross_entropy(scores.T, places)) / 2
#~ loss_scaled -1 |    return (cross_entropy(scores, places) + cross_entropy(scores.T, places)) / 2 * len(sizes)

#~ loss_scaled: misconception: counted_often
#~ slice_once: misconception: divided
